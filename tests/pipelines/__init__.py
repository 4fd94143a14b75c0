"""Pipelines of scikit-learn, LightGBM and XGBoost, converted to ONNX."""
