//! Verbs: a line each, and a list per group.

/// A verb per module, with the arguments and `run` of the module; its help is with the arguments, or before it. A group is
/// a verb whose arguments are verbs (`#[command(subcommand)]`).
macro_rules! verbs {
    ($verbs:ident: $($(#[$help:meta])* $verb:ident($module:ident::$arguments:ident),)+) => {
        #[derive(Debug, clap::Subcommand)]
        pub enum $verbs {
            $($(#[$help])* $verb(Box<$module::$arguments>),)+
        }

        /// Runs the selected verb.
        pub fn run(verb: &$verbs) -> $crate::outcome::Outcome {
            match verb {
                $($verbs::$verb(arguments) => $module::run(arguments),)+
            }
        }
    };
}
pub(crate) use verbs;
