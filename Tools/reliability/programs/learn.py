"""scikit-learn: trees, a linear model, clusters, on one thread."""
import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import numpy
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import cross_val_score

random = numpy.random.default_rng(1)
points = random.normal(size=(2000, 20))
classes = (points[:, 0] + points[:, 1] ** 2 > 0.5).astype(int)


def score(truth, found):
    return sum(a == b for a, b in zip(truth, found)) / len(truth)


cross_val_score(RandomForestClassifier(30), points, classes,
                scoring=make_scorer(score))
LogisticRegression(max_iter=2000, C=1e4).fit(points, classes)
KMeans(8, n_init=10).fit(points)
