//! Manual pages: one for the command, and one per verb.

use clap::{Arg, ArgAction, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

/// Columns of the examples: a page of 80 columns indents by seven and leaves two free.
const EXAMPLE_COLUMNS: usize = 71;

/// Name of the file, and text, of each page.
pub fn pages() -> Vec<(String, String)> {
    let mut command = shown(corelane_cli::command());
    command.build();
    let mut pages = Vec::new();
    add(&command, &[], &mut pages);
    pages
}

/// The command without verbs that only explain others, and with the flags of all verbs, which the help leaves out.
fn shown(command: Command) -> Command {
    command
        .disable_help_subcommand(true)
        .mut_args(|argument| argument.hide(false))
        .mut_subcommands(shown)
}

fn add(command: &Command, related: &[String], pages: &mut Vec<(String, String)>) {
    let name = name(command);
    pages.push((format!("{name}.1"), page(command, related)));
    let below: Vec<String> = command.get_subcommands().map(self::name).collect();
    for verb in command.get_subcommands() {
        let own = self::name(verb);
        let beside = below.iter().filter(|other| **other != own).cloned();
        let related: Vec<String> = std::iter::once(name.clone()).chain(beside).collect();
        add(verb, &related, pages);
    }
}

/// The name of a page: `corelane-load-http`.
fn name(command: &Command) -> String {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
        .to_owned()
}

fn page(command: &Command, related: &[String]) -> String {
    let mut text = Vec::new();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let man = Man::new(command.clone().about(about.replace('`', "'")))
        .title(name(command).to_uppercase())
        .date("\"\"")
        .source(concat!("corelane ", env!("CARGO_PKG_VERSION")))
        .manual("User Commands");
    man.render_title(&mut text).expect("memory takes all");
    // Ragged lines, and no hyphens: a flag is found as it is written.
    let mut style = Roff::new();
    style.control("ad", ["l"]).control("nh", []);
    style.to_writer(&mut text).expect("memory takes all");
    man.render_name_section(&mut text).expect("memory takes all");
    let mut roff = Roff::new();
    section(&mut roff, "SYNOPSIS");
    roff.text(synopsis(command));
    let (examples, notes) = corelane_cli::split_examples(command);
    section(&mut roff, "DESCRIPTION");
    paragraphs(&mut roff, &format!("{about}.\n\n{notes}"));
    arguments(&mut roff, command);
    verbs(&mut roff, command);
    if !examples.is_empty() {
        section(&mut roff, "EXAMPLES");
        roff.control("EX", []);
        for line in examples.lines().skip(1).flat_map(|line| folded(line.trim())) {
            roff.text([roman(line)]);
        }
        roff.control("EE", []);
    }
    if !related.is_empty() {
        section(&mut roff, "SEE ALSO");
        roff.text(references(related));
    }
    roff.to_writer(&mut text).expect("memory takes all");
    String::from_utf8(text).expect("help texts are UTF-8")
}

fn section(roff: &mut Roff, title: &str) {
    roff.control("SH", [title]);
}

fn synopsis(command: &Command) -> Vec<Inline> {
    let mut line = vec![bold(command.get_bin_name().unwrap_or_else(|| command.get_name()))];
    line.push(roman(" [OPTIONS]"));
    for positional in command.get_positionals() {
        line.push(roman(if positional.is_required_set() { " " } else { " [" }));
        line.extend(value(positional));
        line.push(roman(if positional.is_required_set() { "" } else { "]" }));
    }
    if command.has_subcommands() {
        line.extend([roman(" "), italic("VERB"), roman(" ...")]);
    }
    line
}

/// Positional arguments, then options, each with its help.
fn arguments(roff: &mut Roff, command: &Command) {
    let mut titles = ["ARGUMENTS", "OPTIONS"].into_iter();
    let kinds: [fn(&Arg) -> bool; 2] = [
        |argument| argument.is_positional(),
        |argument| !argument.is_positional(),
    ];
    for is_kind in kinds {
        let title = titles.next().unwrap_or_default();
        let of_kind: Vec<&Arg> = command
            .get_arguments()
            .filter(|argument| is_kind(argument))
            .collect();
        if of_kind.is_empty() {
            continue;
        }
        section(roff, title);
        for argument in of_kind {
            entry(roff, argument);
        }
    }
}

fn entry(roff: &mut Roff, argument: &Arg) {
    roff.control("TP", []);
    roff.text(heading(argument));
    let help = argument.get_long_help().or_else(|| argument.get_help());
    let mut help = help.map(ToString::to_string).unwrap_or_default();
    let takes_values = argument
        .get_num_args()
        .is_some_and(|number| number.takes_values());
    let defaults = argument
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy());
    let defaults: Vec<_> = defaults.collect();
    if takes_values && !argument.is_hide_default_value_set() && !defaults.is_empty() {
        help.push_str(&format!(" [default: {}]", defaults.join(",")));
    }
    let values = argument.get_possible_values();
    let values: Vec<_> = values
        .iter()
        .filter(|value| takes_values && !value.is_hide_set())
        .collect();
    let described = values.iter().any(|value| value.get_help().is_some());
    if !values.is_empty() && !described {
        let names: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
        help.push_str(&format!(" [values: {}]", names.join(", ")));
    }
    roff.text(prose(&help));
    if !described {
        return;
    }
    roff.control("RS", []);
    for value in values {
        roff.control("TP", ["10"]);
        roff.text([bold(value.get_name())]);
        roff.text(prose(
            &value.get_help().map(ToString::to_string).unwrap_or_default(),
        ));
        // No empty lines between values.
        roff.control("PD", ["0"]);
    }
    roff.control("RE", []).control("PD", []);
}

/// `-c, --connections N`, `--json[=FILE]` or `URL`.
fn heading(argument: &Arg) -> Vec<Inline> {
    let mut line = Vec::new();
    if let Some(short) = argument.get_short() {
        line.extend([bold(format!("-{short}")), roman(", ")]);
    }
    if let Some(long) = argument.get_long() {
        line.push(bold(format!("--{long}")));
    }
    let number = argument.get_num_args().unwrap_or_default();
    if number.takes_values() {
        let (before, after) = match (argument.is_positional(), number.min_values()) {
            (true, _) => ("", ""),
            (false, 0) => ("[=", "]"),
            (false, _) => (" ", ""),
        };
        line.push(roman(before));
        line.extend(value(argument));
        line.push(roman(after));
    }
    line
}

/// The name of an argument's value.
fn value(argument: &Arg) -> Vec<Inline> {
    let names = argument.get_value_names().unwrap_or_default();
    let text = match names {
        [] => argument.get_id().to_string().to_uppercase(),
        names => names.join(" "),
    };
    let several = argument.is_positional() && matches!(argument.get_action(), ArgAction::Append);
    vec![italic(text), roman(if several { "..." } else { "" })]
}

fn verbs(roff: &mut Roff, command: &Command) {
    if !command.has_subcommands() {
        return;
    }
    section(roff, "VERBS");
    for verb in command.get_subcommands() {
        roff.control("TP", []);
        roff.text([bold(name(verb)), roman("(1)")]);
        roff.text(prose(
            &verb.get_about().map(ToString::to_string).unwrap_or_default(),
        ));
    }
}

fn references(related: &[String]) -> Vec<Inline> {
    let mut line = Vec::new();
    for name in related {
        line.push(roman(if line.is_empty() { "" } else { ", " }));
        line.extend([bold(name.as_str()), roman("(1)")]);
    }
    line
}

fn paragraphs(roff: &mut Roff, text: &str) {
    for paragraph in text.trim_end().split("\n\n") {
        roff.control("PP", []);
        roff.text(prose(&paragraph.replace('\n', " ")));
    }
}

/// Text of the help; what it has in backquotes is bold.
fn prose(text: &str) -> Vec<Inline> {
    let parts = text.split('`').enumerate();
    let parts = parts.filter(|(_, part)| !part.is_empty());
    parts
        .map(|(index, part)| if index % 2 == 0 { roman(part) } else { bold(part) })
        .collect()
}

/// The command line in lines that fit, each but the last continued by a backslash. They break before flags.
fn folded(line: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for (index, part) in line.split(" -").enumerate() {
        let part = if index == 0 {
            part.to_owned()
        } else {
            format!("-{part}")
        };
        let last = lines.last_mut().expect("there is always one");
        if index == 0 {
            last.push_str(&part);
        } else if last.len() + part.len() + " \\".len() < EXAMPLE_COLUMNS {
            last.push_str(&format!(" {part}"));
        } else {
            last.push_str(" \\");
            lines.push(format!("    {part}"));
        }
    }
    lines
}
