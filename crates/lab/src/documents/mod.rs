//! Parts of the documents of experiments, as JSON, text and pages.

pub mod observed;
