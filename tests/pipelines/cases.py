"""The pipelines, fitted to data that comes with scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import lightgbm
import numpy as np
import onnxmltools
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType as Floats
from skl2onnx import convert_sklearn, to_onnx
from skl2onnx.common.data_types import StringTensorType
from sklearn import (
    calibration,
    cluster,
    decomposition,
    discriminant_analysis,
    ensemble,
    gaussian_process,
    linear_model,
    mixture,
    naive_bayes,
    neighbors,
    neural_network,
    preprocessing,
    svm,
    tree,
)
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

__all__ = ["Case", "cases"]

_OPSETS = {"": 18, "ai.onnx.ml": 3}
_BOOSTING_OPSET = 15  # that onnxmltools writes


@dataclass(frozen=True)
class Case:
    """A fitted pipeline as an ONNX model.

    Attributes:
        name: of the pipeline.
        model: the bytes of the model.
        inputs: by name.
        expected: outputs in order: labels or numbers, and probabilities.
    """

    name: str
    model: bytes
    inputs: Mapping[str, np.ndarray]
    expected: tuple[np.ndarray, ...]


def cases() -> Iterator[Case]:
    """All cases; each is fitted when it is reached."""
    iris, diabetes, digits = load_iris(), load_diabetes(), load_digits()
    flowers = iris.data.astype(np.float32), iris.target
    patients = diabetes.data.astype(np.float32), diabetes.target.astype(np.float32)
    images = (digits.data / 16).astype(np.float32), digits.target
    for name, made in _classifiers().items():
        data = images if name == "random forest" else flowers
        yield _converted(name, made, *data, {"zipmap": False})
    for name, made in _regressors().items():
        yield _converted(name, made, *patients, None)
    dictionaries = make_pipeline(
        preprocessing.StandardScaler(), linear_model.LogisticRegression()
    )
    yield _converted("probabilities as dictionaries", dictionaries, *flowers, None)
    yield from _texts()
    yield from _boosted(flowers, patients)
    for name, made in _without_labels().items():
        made.fit(flowers[0])
        model = to_onnx(made, flowers[0][:1], target_opset=_OPSETS)
        yield _case(name, model, flowers[0], made.predict(flowers[0]))


def _classifiers() -> dict[str, Any]:  # Any: of scikit-learn
    def logistic() -> Any:
        return linear_model.LogisticRegression(max_iter=2000)

    scaled = preprocessing.StandardScaler
    stump = tree.DecisionTreeClassifier(max_depth=4, random_state=0)
    return {
        "logistic": make_pipeline(scaled(), logistic()),
        "pca, svc": make_pipeline(
            preprocessing.MinMaxScaler(),
            decomposition.PCA(3),
            svm.SVC(probability=True, random_state=0),
        ),
        "random forest": ensemble.RandomForestClassifier(30, random_state=0),
        "extra trees": ensemble.ExtraTreesClassifier(20, random_state=0),
        "gradient boosting": ensemble.GradientBoostingClassifier(
            n_estimators=20, random_state=0
        ),
        "decision tree": tree.DecisionTreeClassifier(random_state=0),
        "nearest neighbours": make_pipeline(
            preprocessing.RobustScaler(), neighbors.KNeighborsClassifier(3)
        ),
        "gaussian bayes": naive_bayes.GaussianNB(),
        "bernoulli bayes": make_pipeline(
            preprocessing.Binarizer(threshold=2.0), naive_bayes.BernoulliNB()
        ),
        "perceptron": make_pipeline(
            scaled(),
            neural_network.MLPClassifier((16, 8), max_iter=300, random_state=0),
        ),
        "linear discriminants": discriminant_analysis.LinearDiscriminantAnalysis(),
        "quadratic discriminants": discriminant_analysis.QuadraticDiscriminantAnalysis(),
        "gradient descent": make_pipeline(
            scaled(), linear_model.SGDClassifier(loss="log_loss", random_state=0)
        ),
        "stacking": ensemble.StackingClassifier(
            [("a", logistic()), ("b", naive_bayes.GaussianNB())]
        ),
        "bagging": ensemble.BaggingClassifier(stump, 10, random_state=0),
        "adaboost": ensemble.AdaBoostClassifier(n_estimators=10, random_state=0),
        "feature selection": make_pipeline(SelectKBest(k=2), logistic()),
        "calibration": calibration.CalibratedClassifierCV(svm.LinearSVC(), cv=3),
        "polynomials": make_pipeline(preprocessing.PolynomialFeatures(2), logistic()),
        "power transform": make_pipeline(preprocessing.PowerTransformer(), logistic()),
        "bins": make_pipeline(
            preprocessing.KBinsDiscretizer(4, encode="onehot-dense"), logistic()
        ),
        "imputation": make_pipeline(SimpleImputer(), logistic()),
        "columns": make_pipeline(
            make_column_transformer(
                (scaled(), [0, 1]), (preprocessing.MinMaxScaler(), [2, 3])
            ),
            logistic(),
        ),
    }


def _regressors() -> dict[str, Any]:
    scaled = preprocessing.StandardScaler
    return {
        "ridge": make_pipeline(scaled(), linear_model.Ridge()),
        "lasso": linear_model.Lasso(0.1),
        "support vectors": make_pipeline(scaled(), svm.SVR()),
        "gaussian process": gaussian_process.GaussianProcessRegressor(alpha=1.0),
        "regression forest": ensemble.RandomForestRegressor(20, random_state=0),
        "neighbours' mean": neighbors.KNeighborsRegressor(4),
        "regression perceptron": make_pipeline(
            scaled(),
            neural_network.MLPRegressor(
                hidden_layer_sizes=(8,), max_iter=200, random_state=0
            ),
        ),
        "huber": linear_model.HuberRegressor(max_iter=500),
        "poisson": linear_model.PoissonRegressor(max_iter=500),
    }


def _without_labels() -> dict[str, Any]:
    return {
        "k-means": cluster.KMeans(3, random_state=0, n_init=3),
        "gaussian mixture": mixture.GaussianMixture(3, random_state=0),
        "isolation forest": ensemble.IsolationForest(n_estimators=20, random_state=0),
    }


def _converted(
    name: str, made: Any, x: np.ndarray, y: np.ndarray, options: Any
) -> Case:
    made.fit(x, y)
    chosen = None if options is None else {id(made): options}
    model = to_onnx(made, x[:1], options=chosen, target_opset=_OPSETS)
    return _case(name, model, x, *_answers(made, x))


def _answers(made: Any, x: Any) -> Iterator[np.ndarray]:
    yield made.predict(x)
    if hasattr(made, "predict_proba"):
        yield made.predict_proba(x)


def _case(name: str, model: Any, x: np.ndarray, *expected: np.ndarray) -> Case:
    inputs = {model.graph.input[0].name: x}
    return Case(name, model.SerializeToString(), inputs, expected)


def _texts() -> Iterator[Case]:
    """Pipelines of strings."""
    rows = [["a", "x"], ["b", "y"], ["a", "y"], ["c", "x"]]
    columns = np.array(rows * 10)
    sentences = ["the cat sat", "a dog ran fast", "cats and dogs", "the end is near"]
    for name, first, x, shape in (
        ("one hot strings", preprocessing.OneHotEncoder(), columns, [None, 2]),
        ("tf-idf of words", TfidfVectorizer(), np.array(sentences * 10), [None]),
    ):
        made = make_pipeline(first, linear_model.LogisticRegression())
        made.fit(x, [0, 1, 1, 0] * 10)
        model = convert_sklearn(
            made,
            initial_types=[("x", StringTensorType(shape))],
            options={id(made): {"zipmap": False}},
            target_opset=_OPSETS,
        )
        yield _case(name, model, x, *_answers(made, x))


def _boosted(
    flowers: tuple[np.ndarray, np.ndarray], patients: tuple[np.ndarray, np.ndarray]
) -> Iterator[Case]:
    """Ensembles of LightGBM and XGBoost."""
    light: Callable[..., Any] = onnxmltools.convert_lightgbm
    extreme: Callable[..., Any] = onnxmltools.convert_xgboost
    two = flowers[0], flowers[1] == 1
    for name, made, data, convert in (
        ("lightgbm", lightgbm.LGBMClassifier(n_estimators=20), flowers, light),
        (
            "lightgbm regression",
            lightgbm.LGBMRegressor(n_estimators=50),
            patients,
            light,
        ),
        ("xgboost", xgboost.XGBClassifier(n_estimators=20), flowers, extreme),
        ("xgboost, two classes", xgboost.XGBClassifier(n_estimators=20), two, extreme),
        (
            "xgboost regression",
            xgboost.XGBRegressor(n_estimators=50),
            patients,
            extreme,
        ),
    ):
        if convert is light:
            made.set_params(verbose=-1)
        x, y = data
        made.fit(x, y)
        types = [("x", Floats([None, x.shape[1]]))]
        options = (
            {"zipmap": False} if convert is light and hasattr(made, "classes_") else {}
        )
        model = convert(
            made, initial_types=types, target_opset=_BOOSTING_OPSET, **options
        )
        yield _case(name, model, x, *_answers(made, x))
