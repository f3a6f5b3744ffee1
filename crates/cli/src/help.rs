//! The help of all verbs: the groups of the first page, examples that a terminal's width does not break, colour.

use clap::builder::{Resettable, StyledStr};
use clap::{ColorChoice, Command};
use corelane_report::table::wrap;
use std::ffi::OsString;

/// The verbs by what people want.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Measure", &["lab", "report"]),
    ("Generate load", &["load", "plan"]),
    ("Serve and forward", &["serve", "bridge", "table"]),
    ("Steer", &["steer", "rss", "key"]),
    ("Inspect", &["host", "explain", "verify", "infer", "hash"]),
];

/// The first page fits the narrowest usual terminal.
const COLUMNS: usize = 80;

/// The template of clap, with the examples in it: text of a template is not wrapped, so that examples can be pasted.
const BEGIN: &str = "{before-help}{about-with-newline}\n{usage-heading} {usage}\n\n";

/// The command with its help laid out, and coloured as `arguments` request.
pub fn laid_out(command: Command, arguments: impl Iterator<Item = OsString>) -> Command {
    let groups = groups(&command);
    let template = format!("{BEGIN}{groups}Options:\n{{options}}{{after-help}}");
    command
        .mut_subcommands(below)
        .help_template(template)
        .color(color(arguments))
}

/// When to colour, which must be known before the arguments are parsed.
fn color(arguments: impl Iterator<Item = OsString>) -> ColorChoice {
    let words: Vec<String> = arguments
        .filter_map(|argument| argument.into_string().ok())
        .collect();
    let after = words.iter().skip_while(|word| *word != "--color").nth(1);
    let joined = words.iter().find_map(|word| word.strip_prefix("--color="));
    match joined.or(after.map(String::as_str)) {
        Some("always") => ColorChoice::Always,
        Some("never") => ColorChoice::Never,
        _ => ColorChoice::Auto,
    }
}

fn groups(command: &Command) -> String {
    let mut text = String::new();
    for (group, verbs) in GROUPS {
        text.push_str(&format!("{group}:\n"));
        for verb in verbs {
            let about = command.find_subcommand(verb).and_then(Command::get_about);
            let about = about.map(StyledStr::to_string).unwrap_or_default();
            for (line, words) in wrap(&about, COLUMNS - 11).iter().enumerate() {
                let verb = if line == 0 { verb } else { "" };
                text.push_str(&format!("  {verb:<9}{words}\n"));
            }
        }
        text.push('\n');
    }
    text
}

/// Moves the examples of a verb and of those below it from the wrapped text to the template.
fn below(command: Command) -> Command {
    // `corelane help VERB` explains every verb.
    let command = command.disable_help_subcommand(true).mut_subcommands(below);
    let (examples, rest) = split_examples(&command);
    if examples.is_empty() {
        return command;
    }
    let template = format!("{BEGIN}{{all-args}}\n\n{examples}{{after-help}}");
    // An empty text would still end in a blank line.
    let rest = Some(rest).filter(|rest| !rest.is_empty()).map(StyledStr::from);
    command.after_help(Resettable::from(rest)).help_template(template)
}

/// The text after the options of a verb, in two parts: the examples with their heading, one per line, and what follows.
pub fn split_examples(command: &Command) -> (String, String) {
    let after = command.get_after_help().map(StyledStr::to_string);
    let after = after.unwrap_or_default();
    let is_example = |line: &&str| line.starts_with("Example") || line.starts_with("  ");
    let examples: Vec<&str> = after.lines().take_while(is_example).collect();
    let rest: Vec<&str> = after.lines().skip(examples.len()).collect();
    (
        examples.join("\n"),
        rest.join("\n").trim_start_matches('\n').to_owned(),
    )
}
