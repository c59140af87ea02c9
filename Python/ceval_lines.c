/* The evaluator that shows lines: a third compilation of ceval.c.
 *
 * It is the labelled evaluator, see ceval_labelled.c, with one addition: at
 * each instruction it moves the label of the function that runs to where the
 * instruction's line is told.  It is reached only while lines are asked for;
 * otherwise not one of its instructions runs.
 */

#define Py_CEVAL_LINES
#include "ceval_labelled.c"
