//! Tests of the stages.

mod work;
