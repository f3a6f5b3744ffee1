//! Completions of verbs, flags, values and network devices, for bash, zsh and fish.
//!
//! The scripts are clap's, which know the verbs, the flags, and the values that clap checks. Added here: the values that a
//! value name lists, such as `epoll|io_uring`, and the devices of the machine on which the script runs, alone and in links
//! such as `xdp:eth0`.

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use clap_complete::{Shell, generate};

/// Stand for the devices, and for links with them, in a script of clap.
const DEVICES: &str = "CORELANE-DEVICES";
const LINKS: &str = "CORELANE-LINKS";

/// Lists the devices in bash and fish. A kernel with bonding has a file among their folders.
const LIST_DEVICES: &str = "basename -a /sys/class/net/*/";

/// bash splits words at colons, so that the device of a link is a word of its own.
const BASH: &str = r#"
_corelane_devices() {
    LIST_DEVICES
}

_corelane_links() {
    local device
    for device in $(_corelane_devices); do
        echo {packet,tap,xdp}:"$device"
    done
}

_corelane_words() {
    local kind=$3
    [[ $3 != : ]] || kind=${COMP_WORDS[COMP_CWORD - 2]}
    if [[ $kind =~ ^(packet|tap|xdp)$ && ($3 == : || ${COMP_WORDS[COMP_CWORD]} == :) ]]; then
        COMPREPLY=($(compgen -W "$(_corelane_devices)" -- "$2"))
    else
        _corelane "$@"
    fi
}
"#;

const ZSH: &str = "_corelane_devices() {
    compadd -- /sys/class/net/*(N-/:t)
}

_corelane_links() {
    local -a devices=(/sys/class/net/*(N-/:t))
    compadd -- {packet,tap,xdp}:${^devices}
}

";

/// Begins each entry of a script for fish; entries with values have several lines.
const COMPLETE: &str = "\ncomplete ";

/// The file of each shell's script below a prefix, and its text.
pub fn scripts() -> [(&'static str, String); 3] {
    [
        ("share/bash-completion/completions/corelane", bash()),
        ("share/zsh/site-functions/_corelane", zsh()),
        ("share/fish/vendor_completions.d/corelane.fish", fish()),
    ]
}

fn bash() -> String {
    let text = script(Shell::Bash, command())
        .replace(DEVICES, "$(_corelane_devices)")
        .replace(LINKS, "$(_corelane_links)")
        .replace("complete -F _corelane ", "complete -F _corelane_words ");
    BASH.trim_start().replace("LIST_DEVICES", LIST_DEVICES) + "\n" + &text
}

fn zsh() -> String {
    script(Shell::Zsh, command())
        .replace(&format!("({DEVICES})"), "_corelane_devices")
        .replace(&format!("({LINKS})"), "_corelane_links")
        .replacen("_corelane() {", &format!("{ZSH}_corelane() {{"), 1)
}

/// clap's script for fish ends at two verbs. A third, as in `lab scale udp`, is made as the second below the verb between,
/// and then moved below both.
fn fish() -> String {
    let mut text = script(Shell::Fish, command());
    for above in command().get_subcommands() {
        let groups = above.get_subcommands().filter(|verb| verb.has_subcommands());
        for group in groups {
            let alone = Command::new("corelane").subcommand(group.clone());
            let shown = format!("using_subcommand {}; and", group.get_name());
            let moved = format!(
                "using_subcommand {}; and __fish_seen_subcommand_from {}; and",
                above.get_name(),
                group.get_name()
            );
            let script = script(Shell::Fish, alone);
            let third = script.split(COMPLETE).filter(|entry| entry.contains(&shown));
            text.extend(
                third.map(|entry| format!("{}{}", &COMPLETE[1..], entry.replacen(&shown, &moved, 1) + "\n")),
            );
        }
    }
    text.replace(&format!("{DEVICES}\\t''"), &format!("({LIST_DEVICES})"))
        .replace(
            &format!("{LINKS}\\t''"),
            &format!("{{packet,tap,xdp}}:({LIST_DEVICES})"),
        )
}

fn script(shell: Shell, mut command: Command) -> String {
    let mut text = Vec::new();
    generate(shell, &mut command, "corelane", &mut text);
    String::from_utf8(text).expect("help texts are UTF-8")
}

fn command() -> Command {
    with_values(corelane_cli::command())
}

fn with_values(command: Command) -> Command {
    let command = command.disable_help_subcommand(true);
    command.mut_args(with_listed).mut_subcommands(with_values)
}

/// The argument with the values that its name lists.
fn with_listed(argument: Arg) -> Arg {
    let names = argument.get_value_names().unwrap_or_default();
    let [name] = names else { return argument };
    let listed: Vec<String> = match name.as_str() {
        "DEVICE" => vec![DEVICES.to_owned()],
        "LINK" => vec![LINKS.to_owned()],
        name => name
            .split('|')
            .filter(|value| !is_placeholder(value))
            .map(str::to_owned)
            .collect(),
    };
    match listed.is_empty() {
        true => argument,
        false => argument.value_parser(PossibleValuesParser::new(
            listed.into_iter().map(|value| &*value.leak()),
        )),
    }
}

/// Whether the name of a value stands for what the user gives: `LIST` in `all|LIST`.
fn is_placeholder(name: &str) -> bool {
    !name.contains(|letter: char| letter.is_ascii_lowercase())
}
