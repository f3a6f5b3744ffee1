//! What a reader who does not know the program stumbles over: doubtful figures have their sentence beside them, a failure is
//! the headline, and what says little comes last.

use super::{streams, support};

use corelane_lab::scale::datagrams::{Placement, ScaleReport, Step};
use corelane_lab::scale::streams::{Server, StreamsReport};
use corelane_lab::trial::TrialStatus;
use corelane_report::page::Rendered;

/// A page with blanks for its non-breaking ones.
fn html(report: &impl Rendered) -> String {
    report.page().to_html().replace('\u{a0}', " ")
}

/// The text in one line.
fn text(report: &impl Rendered) -> String {
    report
        .page()
        .to_text()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// The figure of this title.
fn figure<'a>(html: &'a str, title: &str) -> &'a str {
    let after = html.split_once(&format!("<h3>{title}</h3>")).unwrap().1;
    after.split_once("</figure>").unwrap().0
}

/// The number of an attribute in its first element that begins so.
fn attribute(html: &str, element: &str, name: &str) -> f64 {
    let element = html.split_once(element).unwrap().1;
    let value = element.split_once(&format!(" {name}=\"")).unwrap().1;
    value.split_once('"').unwrap().0.parse().unwrap()
}

#[test]
fn one_round_has_no_error_bars_and_says_so() {
    let mut report = support::report(2, 215_000.0);
    let title = "Rate, echo";
    let several = html(&report);
    let several = figure(&several, title);
    assert!(
        several.contains("class=\"range\"") && several.contains("error bars span"),
        "{several}"
    );
    let page = html(&report);
    let cost = figure(&page, "CPU per frame, echo");
    assert!(cost.contains("Medians of the valid trials"), "{cost}");
    report.trials.retain(|trial| trial.head.round == 0);
    report.summarise();
    let page = html(&report);
    let one = figure(&page, title);
    assert!(
        !one.contains("class=\"range\"") && one.contains("One trial per step."),
        "{one}"
    );
    assert!(page.contains("one round: its spread is unknown"), "{page}");
}

/// The guide begins at the middle of the top of the bar of one bucket, and rises to the multiple.
fn has_guide(figure: &str, times: f64) {
    let bar = |name| attribute(figure, "<rect class=\"fill exact aligned\"", name);
    let path = figure.split_once("class=\"line ideal\"><path d=\"M").unwrap().1;
    let numbers: Vec<f64> = (path.split_once('"').unwrap().0)
        .split(['L', ' '])
        .map(|number| number.parse().unwrap())
        .collect();
    let [x1, y1, x2, y2] = numbers[..] else {
        panic!("{numbers:?}");
    };
    assert!((x1 - bar("x") - bar("width") / 2.0).abs() < 0.2, "{numbers:?}");
    assert!((y1 - bar("y")).abs() < 0.2 && x2 > x1, "{numbers:?}");
    let base = bar("y") + bar("height");
    assert!(((base - y2) - times * (base - y1)).abs() < 0.5, "{numbers:?}");
}

#[test]
fn the_line_of_proportion_begins_at_the_bar_of_one_bucket() {
    has_guide(figure(&html(&support::report(2, 215_000.0)), "Rate, echo"), 2.0);
    has_guide(
        figure(&html(&streams::report(2)), "1 KiB objects over 64 connections"),
        2.0,
    );
}

/// A run in which crossed clients were measured at one bucket, too, and did this share of two aligned buckets there.
fn crossed(share: f64) -> ScaleReport {
    let mut report = support::report(2, 215_000.0);
    let is_crossed = |step: &&mut Step| step.shape.placement == Placement::Crossed;
    for step in report.steps.iter_mut().filter(is_crossed) {
        step.shape.buckets_active = 1;
    }
    for trial in &mut report.trials {
        if report.steps[trial.head.step].shape.placement == Placement::Crossed {
            let counts = &mut trial.counts;
            counts.seen = counts.seen.map(|seen| (seen as f64 * share) as u64);
            counts.answered = counts.answered.and(counts.seen);
        }
    }
    report.summarise();
    report
}

#[test]
fn crossed_clients_above_aligned_ones_are_explained_beside_the_bars() {
    let why = "At one bucket, crossed clients do more than aligned ones because they have a CPU of their own";
    let report = crossed(1.0);
    assert!(figure(&html(&report), "Rate, echo").contains(why));
    assert!(text(&report).contains(why));
    let report = crossed(0.4);
    assert!(!html(&report).contains(why) && !text(&report).contains(why));
}

#[test]
fn a_control_whose_growth_no_cpu_explains_is_doubtful() {
    let mut report = streams::report(2);
    let doubt = "Doubtful: kernel-hashed SO_REUSEPORT, aligned, 1 KiB objects over 64 connections: linearity 2.00 is above 1.1";
    assert!(!text(&report).contains("Doubtful"));
    for trial in &mut report.trials {
        let shape = &report.steps[trial.head.step].shape;
        if (shape.server, shape.buckets_active) == (Server::Reuseport, 1) {
            trial.requests_ok /= 2;
        }
    }
    report.summarise();
    assert!(text(&report).contains(doubt), "{}", text(&report));
}

/// Ends the trials of these steps as failed.
fn fail(report: &mut StreamsReport, why: &str, is_of: impl Fn(u64) -> bool) {
    for trial in &mut report.trials {
        if is_of(report.steps[trial.head.step].shape.connections) {
            trial.head.end(TrialStatus::Failed, why);
        }
    }
    report.summarise();
}

#[test]
fn a_size_without_a_result_says_why_in_place_of_its_table() {
    let mut report = streams::report(2);
    let title = "exact steering, aligned, 1 KiB objects over 64 connections; N buckets active";
    let why = "failed: 404 on /1k (2,223 times)";
    assert!(!text(&report).contains(why));
    fail(&mut report, "404 on /1k (2,223 times)", |connections| {
        connections == 64
    });
    assert!(text(&report).contains(&format!(
        "{title} {why} exact steering, aligned, 1 KiB objects over 10,000"
    )));
    let page = html(&report);
    let section = page.split_once(&title.replacen('e', "E", 1)).unwrap().1;
    let section = section.split_once("</section>").unwrap().0;
    assert!(section.contains(why) && !section.contains("<table"), "{section}");
    assert!(
        page.contains("<h1>The server does "),
        "the other size has a result"
    );
}

#[test]
fn a_run_without_a_result_has_its_failure_as_the_headline_and_at_the_end() {
    let mut report = streams::report(2);
    fail(&mut report, "404 on /1k (2,223 times)", |_| true);
    let failed = "Failed: 404 on /1k (2,223 times)";
    assert!(html(&report).contains(&format!("<h1>{failed}</h1>")));
    assert!(
        report
            .page()
            .to_text()
            .lines()
            .last()
            .unwrap()
            .starts_with(failed)
    );
    assert!(report.proved().unwrap_err().ends_with("404 on /1k (2,223 times)"));
}

#[test]
fn a_subject_has_cpus_wherever_our_server_has_buckets() {
    let mut report = streams::report(2);
    report.steps.retain(|step| step.shape.server == Server::Exact);
    report.trials.clear();
    report.limit.sentence.clear();
    for step in &mut report.steps {
        step.shape.server = Server::Subject;
    }
    for words in [html(&report), text(&report)] {
        assert!(!words.contains("bucket"), "{words}");
        assert!(words.to_lowercase().contains("n cpus"), "{words}");
    }
}

#[test]
fn conditions_that_spoil_come_first_and_those_that_are_unknown_last_and_folded() {
    let page = html(&support::report(2, 215_000.0));
    let conditions = page.split_once("Conditions, worst first").unwrap().1;
    let at = |words: &str| {
        conditions
            .find(words)
            .unwrap_or_else(|| panic!("{words}: {conditions}"))
    };
    let order = [
        "<th scope=\"row\">spoils",
        "<summary>Explains: 1",
        "<summary>Fine: 1",
        "<summary>Unknown: 1",
        "no cpufreq",
    ];
    assert!(order.map(at).is_sorted());
    let caveats = page.split_once("class=\"spoilers\"").unwrap().1;
    assert!(caveats.split_once("</section>").unwrap().0.contains("turbo = on"));
}

#[test]
fn what_is_routine_is_not_in_the_box_of_what_spoils() {
    let mut report = support::report(2, 215_000.0);
    report.plan["quick"] = true.into();
    let page = html(&report);
    let of = |class: &str| {
        let after = page.split_once(&format!("class=\"{class}\"")).unwrap().1;
        after.split_once("</section>").unwrap().0
    };
    assert!(of("notes").contains("one short trial per step") && !of("spoilers").contains("one short trial"));
    assert!(
        page.contains("answer 426 k/s: about 2.0 times what one does"),
        "{page}"
    );
}
