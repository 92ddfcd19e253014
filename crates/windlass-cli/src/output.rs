//! How answers are printed: tables, JSON, YAML, names.
