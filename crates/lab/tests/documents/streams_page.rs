//! The page and the text of `lab scale http`: figures, the limit in the headline, terms, widths.

use super::streams::report;
use corelane_lab::scale::streams::Server;
use corelane_report::page::Rendered;
use corelane_report::text::Width;

#[test]
fn the_page_of_two_buckets_has_columns_latencies_cpu_time_and_its_limit_as_the_headline() {
    let html = report(2).page().to_html().replace('\u{a0}', " ");
    for words in [
        "with 10,000 connections, limited by CPU time</h1>",
        "<p class=\"limit\">The limit was CPU time.</p>",
        "CPU time by side",
        "1 bucket: 99.9 % of all within 9",
        "2 buckets: 99.9 % of all within 9",
        "Rate over time",
        "<td class=\"words\">yes</td>",
    ] {
        assert!(html.contains(words), "{words} is not in {html}");
    }
    assert!(!html.contains(">it was"), "{html}");
    let growth = html.split("Growth with buckets").nth(1).unwrap();
    let growth = growth.split("</section>").next().unwrap();
    assert!(
        growth.contains("<rect class=\"fill exact") && growth.contains("class=\"range\""),
        "{growth}"
    );
    let [lines, guides] = ["<path", "class=\"line ideal\""].map(|of| growth.matches(of).count());
    assert_eq!(lines, guides, "no line joins two measured points: {growth}");
}

#[test]
fn the_text_fits_its_terminal_and_a_pipe_cuts_nothing() {
    let page = report(4).page();
    for columns in [60, 80, 120] {
        let text = page.text(Width::of_terminal(columns));
        for line in text.lines() {
            assert!(line.chars().count() <= columns, "{line}");
        }
    }
    assert!(
        page.to_text().contains('\u{2026}'),
        "100 columns have no room for the traffic"
    );
    assert!(!page.text(Width::UNBOUNDED).contains('\u{2026}'));
}

#[test]
fn terms_are_explained_before_the_first_table_that_has_them() {
    let text = report(2).page().to_text();
    let at = |words: &str| {
        text.find(words)
            .unwrap_or_else(|| panic!("{words} is not in {text}"))
    };
    for term in [
        "  bucket ",
        "  exact ",
        "  aligned ",
        "  reuseport ",
        "  linearity ",
    ] {
        assert!(at(term) < at("; N buckets active"), "{term}");
    }
    assert!(!text.contains("  crossed "), "no client ran there: {text}");
}

#[test]
fn a_control_faster_than_exact_steering_is_explained_by_what_was_measured() {
    let mut report = report(2);
    let controls: Vec<usize> = (0..report.steps.len())
        .filter(|step| report.steps[*step].shape.server == Server::Reuseport)
        .collect();
    for trial in &mut report.trials {
        if controls.contains(&trial.head.step) {
            trial.requests_ok *= 2;
        }
    }
    report.summarise();
    let text = report.page().to_text().replace('\n', " ");
    for words in [
        "Faster than exact steering, 1.60x: kernel-hashed SO_REUSEPORT, aligned, 1 KiB objects over 64 connections: 320 k",
        "Measured: 2 \u{b5}s of server CPU per request, exact steering 4 \u{b5}s",
    ] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
}
