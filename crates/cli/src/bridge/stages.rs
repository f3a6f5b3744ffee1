//! The stages of a bridge: a flag for each, whose value are its settings.

use crate::outcome::usage;
use crate::settings::section;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use corelane_stage::{Listed, STAGES, StagePlans, explain};
use serde::Deserialize;
use toml::{Table, Value};

/// The settings given for each stage.
#[derive(Debug, Default)]
pub struct StageArguments(Vec<(&'static Listed, String)>);

impl Args for StageArguments {
    fn augment_args(command: Command) -> Command {
        STAGES.iter().fold(command, |command, stage| {
            let flag = Arg::new(stage.name)
                .long(stage.name)
                .help(stage.about)
                .value_name(stage.value)
                .conflicts_with("config");
            let flag = match explain::STAGES.contains(&stage.name) {
                true => flag,
                false => flag.conflicts_with("explain"),
            };
            command.arg(match stage.bare {
                Some(_) => flag,
                None => flag
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value(""),
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for StageArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = STAGES.iter().filter_map(|stage| {
            let settings = matches.get_one::<String>(stage.name)?;
            Some((stage, settings.clone()))
        });
        Ok(StageArguments(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl StageArguments {
    /// The stages that run.
    pub fn plan(&self) -> anyhow::Result<StagePlans> {
        let mut plans = Table::new();
        for (stage, settings) in &self.0 {
            let (name, flag) = (stage.name.to_owned(), format!("--{}", stage.name));
            let settings = section(settings, stage.bare).map_err(|error| usage(&flag, error))?;
            // Read alone first, so that an error names the flag at fault.
            let alone = Table::from_iter([(name.clone(), Value::Table(settings.clone()))]);
            StagePlans::deserialize(alone).map_err(|error| usage(&flag, error.message()))?;
            plans.insert(name, Value::Table(settings));
        }
        Ok(StagePlans::deserialize(plans)?)
    }
}
