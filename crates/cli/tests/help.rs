//! The help: every way to it, examples that can be pasted, colour.

use crate::common::{corelane, run};

/// Standard output at this number of columns.
fn printed(arguments: &str, columns: &str) -> String {
    let mut command = corelane(arguments);
    let output = command
        .env("COLUMNS", columns)
        .env_remove("NO_COLOR")
        .output()
        .unwrap();
    assert!(output.status.success(), "corelane {arguments}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn help_is_found_by_verb_and_the_version_names_the_program() {
    for verb in ["load", "lab scale udp", "host"] {
        assert_eq!(
            printed(&format!("help {verb}"), "100"),
            printed(&format!("{verb} --help"), "100")
        );
    }
    assert_eq!(
        printed("-V", "100"),
        format!("corelane {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn an_example_is_one_line_at_any_width() {
    for (verb, example) in [
        (
            "infer",
            "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa",
        ),
        ("load http", "--rate 5k --duration 1s --fail-if 'failed > 1%'"),
        (
            "lab scale udp",
            "--placements aligned,crossed --duration 100ms --rounds 1",
        ),
    ] {
        let help = printed(&format!("help {verb}"), "60");
        let mut lines = help.lines().filter(|line| line.ends_with(example));
        let start = format!("  corelane {verb}");
        assert!(lines.all(|line| line.starts_with(&start)), "{help}");
        assert!(help.contains(&format!("{example}\n")), "{help}");
        // What is no example is wrapped.
        let options = help.lines().take_while(|line| !line.starts_with("Example"));
        assert!(
            options
                .clone()
                .all(|line| line.chars().count() <= 60 || line.contains("<")),
            "{help}"
        );
    }
}

#[test]
fn colour_is_on_request_only_into_a_pipe() {
    let escape = '\u{1b}';
    assert!(!printed("--help", "100").contains(escape));
    for arguments in ["--color always --help", "load --color=always --help"] {
        assert!(printed(arguments, "100").contains(escape), "{arguments}");
    }
    assert!(!printed("--color never --help", "100").contains(escape));
    let error = |arguments: &str| String::from_utf8(run(arguments).stderr).unwrap();
    assert!(error("table show /nope").starts_with("corelane: "));
    assert!(error("table show /nope --color always").starts_with("\u{1b}[1;31mcorelane:\u{1b}[0m "));
}
