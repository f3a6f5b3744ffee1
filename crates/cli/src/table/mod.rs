//! `corelane table`: builds, shows and queries address tables, one file per verb.

mod build;
mod lookup;
mod show;
mod source;

pub use source::with_flag;

use crate::verbs::verbs;

verbs! {
    TableWhat:
    Build(build::BuildArguments),
    Show(show::ShowArguments),
    Lookup(lookup::LookupArguments),
}
