//! The verbs of a group: a line each.

/// A verb per module, with the arguments and `run` of the module; its help is with the arguments.
macro_rules! verbs {
    ($verbs:ident: $($verb:ident($module:ident::$arguments:ident),)+) => {
        #[derive(Debug, clap::Subcommand)]
        pub enum $verbs {
            $($verb(Box<$module::$arguments>),)+
        }

        impl $verbs {
            /// Runs the selected verb.
            pub fn run(&self) -> $crate::outcome::Outcome {
                match self {
                    $(Self::$verb(arguments) => $module::run(arguments),)+
                }
            }
        }
    };
}
pub(crate) use verbs;
