// The profile that perfpy/html.py put into the page, unpacked.
//
// The text of the element #profile is base 85 (as Python's, with a comma for
// "<") of zlib data of this:
//   length of the JSON in four bytes, lowest first; the JSON; each view's columns
// The JSON:
//   meta                        what is known about the recording, texts by name
//   summary                     how much was recorded, a text
//   unit                        of times, if they are not microseconds
//   origins, labels             whose code there is: names, and texts for people
//   waits                       for each of them whether it is no code, but a wait
//   names, originOf, fileOf     for each frame: text, index in origins, in files
//   files                       texts
//   threads                     [{pid, process, name, samples}]
//   source                      the functions whose lines are known, hottest first:
//                               {frame, first, text, changed, times, ofThreads}: the
//                               number of the first line, the lines, whether the file
//                               has changed since, [line, own time, total time], and
//                               [thread, such times] of the busiest threads
//   isDiff                      whether it compares: thread 0 is after, 1 before
//   views                       folded and unfolded: the stacks without and with
//                               the interpreter, {stacks, chains, weights}
// A view's columns:
//   lengths, callers            of each chain of stacks, each of which is the
//                               next one's caller; the caller of the first one
//   frames                      for each stack its innermost frame
//   nodes, times                for each thread: its stacks, as differences, and
//                               the time in exactly these; views.weights has
//                               the number of each thread's
// A column is stored as the lowest bytes of all its numbers, then the next ones.
// Times have eight bytes, all others four.
// A stack that follows others is called by one of them.  As a caller and as a
// node, stacks count from 1, and 0 is where none has begun.

const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
               + "!#$%&()*+-;,=>?@^_`{|}~";
const ROOT = -1;                  // in place of the frame of node 0

function fromBase85(text) {
  const values = new Uint8Array(128);
  [...DIGITS].forEach((digit, value) => { values[digit.charCodeAt(0)] = value; });
  const result = new DataView(new ArrayBuffer(Math.ceil(text.length / 5) * 4));
  for (let place = 0; place < text.length; place += 5) {
    let word = 0;
    for (let digit = place; digit < place + 5; digit++) {
      word = word * 85
             + (digit < text.length ? values[text.charCodeAt(digit)] : 84);
    }
    result.setUint32(place / 5 * 4, word);
  }
  const padding = (5 - text.length % 5) % 5;
  return new Uint8Array(result.buffer, 0, result.byteLength - padding);
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream()
    .pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function readProfile(text) {
  const bytes = await inflate(fromBase85(text));
  const size = new DataView(bytes.buffer).getUint32(0, true);
  const json = new TextDecoder().decode(bytes.subarray(4, 4 + size));
  const profile = JSON.parse(json);
  let place = 4 + size;
  for (const name of ["folded", "unfolded"]) {
    const view = profile.views[name];
    view.bytes = bytes.subarray(place);
    place += 4 * (2 * view.chains + view.stacks)
             + 12 * view.weights.reduce((sum, count) => sum + count, 0);
  }
  return profile;
}

// Returns a function that reads the next column, of so many numbers.
function columnsOf(bytes) {
  let place = 0;
  return count => {
    const column = new Int32Array(count);
    for (let shift = 0; shift < 32; shift += 8) {
      for (let index = 0; index < count; index++) {
        column[index] |= bytes[place++] << shift;
      }
    }
    return column;
  };
}

// Returns the calls in a view: for each node its parent and its frame, its
// first child and its next sibling or 0, and each thread's times.
function callsOf(view) {
  const column = columnsOf(view.bytes);
  const lengths = column(view.chains);
  const callers = column(view.chains);
  const frames = new Int32Array(view.stacks + 1);
  frames.set(column(view.stacks), 1);
  frames[0] = ROOT;
  const parents = new Int32Array(view.stacks + 1);
  let node = 1;
  lengths.forEach((length, chain) => {
    parents[node] = callers[chain];
    for (const end = node++ + length; node < end; node++) parents[node] = node - 1;
  });
  const threads = view.weights.map(count => {
    const nodes = column(count);
    for (let index = 1; index < count; index++) nodes[index] += nodes[index - 1];
    const low = column(count);
    const high = column(count);
    return {nodes, times: Float64Array.from(high, (number, index) =>
      number * 2 ** 32 + (low[index] >>> 0))};
  });
  return {...linked(parents), frames, threads};
}

// Adds to the parents of nodes each one's first child and next sibling.
function linked(parents) {
  const first = new Int32Array(parents.length);
  const next = new Int32Array(parents.length);
  for (let node = parents.length - 1; node > 0; node--) {
    next[node] = first[parents[node]];
    first[parents[node]] = node;
  }
  return {parents, first, next};
}
