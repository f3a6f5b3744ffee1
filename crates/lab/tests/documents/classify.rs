//! The document of `lab classify`: the values derived from its trials, and its text.

use corelane_host::cpus::{CacheInfo, CacheKind};
use corelane_lab::classify::document::{CPU, FRAMES, LOOKUPS, MATCHED, MEMORY_READ, SHARE_OF_LIMIT};
use corelane_lab::classify::document::{
    ClassifyReport, Limit, LimitTrial, Plan, Published, SCHEMA, Setting, Step, Stride, Trial, Unknowns,
    published,
};
use corelane_lab::document::{Document, Head};
use corelane_lab::trial::TrialHead;
use corelane_loops::pipeline::ThreadTrial;
use corelane_report::page::Rendered;

/// A trial of one second with this number of frames over all threads.
fn trial(step: usize, round: usize, threads: usize, frames: u64) -> Trial {
    let thread = ThreadTrial {
        frames: frames / threads as u64,
        lookups: 2 * frames / threads as u64,
        matched: frames / threads as u64,
        refused: 0,
        // Includes half a second during which other programs had the CPU, which does not count.
        wall_ns: 1_500_000_000,
        cpu_ns: 900_000_000,
        waited_ns: 500_000_000,
    };
    Trial {
        head: TrialHead::new(step, round, 1.0),
        threads: vec![thread; threads],
        cache_misses: None,
        mem_read_bytes: Some(3_000_000),
        mem_write_bytes: None,
        elapsed_ns: 2_000_000_000,
    }
}

fn plan() -> Plan {
    Plan {
        rounds: 2,
        duration_s: 1.0,
        burst: 1024,
        ring: 4096,
        frame_bytes: 64,
        entries: 6_000_000,
        present_share: 0.5,
        cpus: vec![0, 1],
        seed: 1,
    }
}

fn limit() -> Limit {
    let trial = |round, way: &str, lines_per_s| LimitTrial {
        head: TrialHead::new(0, round, 1.0),
        way: way.to_owned(),
        lines_per_s,
    };
    Limit {
        bytes: 1 << 26,
        page_size: Some(2 << 20),
        way: None,
        lines_per_s_spread: None,
        trials: vec![
            trial(0, "32 ahead", 100e6),
            trial(1, "32 ahead", 200e6),
            trial(0, "batches of 32", 80e6),
        ],
    }
}

/// A run with the settings of the blog post on two CPUs. Each has the post's speed in the first round; in the second,
/// the speed and every limit are doubled.
fn report() -> ClassifyReport {
    let mut settings: Vec<(Setting, u64)> = Vec::new();
    for row in published::rows() {
        let mut setting = row.setting;
        setting.threads = setting.threads.min(2);
        if settings.iter().all(|(known, _)| *known != setting) {
            settings.push((setting, row.frames_per_s.unwrap() as u64));
        }
    }
    let mut trials = Vec::new();
    for (step, (setting, rate)) in settings.iter().enumerate() {
        trials.push(trial(step, 0, setting.threads, *rate));
        trials.push(trial(step, 1, setting.threads, 2 * rate));
    }
    let second_level = CacheInfo {
        level: 2,
        kind: CacheKind::Unified,
        bytes: Some(1 << 20),
        line_bytes: Some(64),
        ways: Some(16),
        sets: Some(1024),
        shared_by: vec![0, 1],
    };
    let mut report = ClassifyReport {
        head: Head {
            schema: SCHEMA.to_owned(),
            command_line: vec!["corelane".to_owned(), "lab".to_owned(), "classify".to_owned()],
            ..Head::default()
        },
        plan: plan(),
        limit_lines_per_s: None,
        limit: limit(),
        caches: vec![second_level.clone()],
        strides: published::STRIDES
            .iter()
            .map(|stride| Stride::predicted(*stride, 1024, std::slice::from_ref(&second_level)))
            .collect(),
        steps: settings
            .into_iter()
            .map(|(setting, _)| Step::planned(setting))
            .collect(),
        published: Published::default(),
        choices: Vec::new(),
        unknowns: Unknowns {
            memory_traffic: None,
            cache_misses: Some("there are no hardware counters".to_owned()),
        },
        conclusions: Vec::new(),
        trials,
        header_trials: Vec::new(),
    };
    report.conclude();
    report
}

fn choice<'a>(report: &'a ClassifyReport, words: &str) -> &'a corelane_lab::classify::document::Choice {
    let found = report.choices.iter().find(|choice| choice.words.contains(words));
    found.unwrap_or_else(|| panic!("no choice matches {words:?}"))
}

#[test]
fn figures_are_medians_and_what_others_took_of_the_cpu_does_not_count() {
    let report = report();
    let aligned = &report.steps[2];
    assert_eq!((aligned.setting.stride, aligned.setting.batch), (2048, 1));
    assert_eq!(FRAMES.of(aligned), Some(1.5 * 6.5e6));
    assert_eq!(LOOKUPS.of(aligned), Some(3.0 * 6.5e6));
    assert_eq!(CPU.of(aligned), Some(0.6));
    assert_eq!(MATCHED.of(aligned), Some(0.5));
    assert_eq!(MEMORY_READ.of(aligned), Some(1.5));
}

#[test]
fn the_limit_is_the_faster_way_and_a_share_is_of_the_same_round_and_of_one_thread() {
    let report = report();
    assert_eq!(report.limit.way.as_deref(), Some("32 ahead"));
    assert_eq!(report.limit_lines_per_s, Some(150e6));
    for step in report
        .steps
        .iter()
        .filter(|step| SHARE_OF_LIMIT.of(*step).is_some())
    {
        let spread = *SHARE_OF_LIMIT.range(step).unwrap();
        assert!(spread.relative < 1e-9, "{}: both rounds doubled", step.setting);
    }
    let four = report
        .published
        .rows
        .iter()
        .find(|row| row.setting.threads == 4)
        .unwrap();
    let step = &report.steps[four.step.unwrap()];
    assert_eq!(step.setting.threads, 2);
    assert!((SHARE_OF_LIMIT.of(step).unwrap() - 2.0 * 12e6 / 2.0 / 100e6).abs() < 1e-9);
}

#[test]
fn a_missing_figure_has_its_reason() {
    let report = report();
    for step in &report.steps {
        let value = serde_json::to_value(step).unwrap();
        for name in [
            "page_size",
            "lookups_per_s",
            "frames_per_s",
            "share_of_limit",
            "mem_read_mb_s",
            "mem_write_mb_s",
            "cache_misses_per_lookup",
            "cpu_share",
        ] {
            assert_eq!(
                value[name].is_null(),
                step.unknown.contains_key(name),
                "{name} of {value}"
            );
        }
        assert_eq!(
            step.unknown["cache_misses_per_lookup"],
            "there are no hardware counters"
        );
    }
}

#[test]
fn the_post_s_own_figures_give_the_post_s_conclusions() {
    let report = report();
    let ratio = |words: &str| (choice(&report, words).ratio.median * 100.0).round() / 100.0;
    assert_eq!(
        ratio("a stride of 1920 instead of 2048, over an empty table"),
        1.54
    );
    assert_eq!(ratio("buckets prefetched instead of nothing, batches of 4"), 1.38);
    assert_eq!(ratio("2,097,152 buckets instead of 524,288"), 1.16);
    assert_eq!(ratio("a read lock a frame instead of none, 1 thread"), 0.79);
    assert_eq!(ratio("a read lock a frame instead of none, 2 threads"), 0.39);
    // "So in this instance, there's no real benefit from doing prefetching on both", nor from headers alone.
    assert!(!choice(&report, "headers prefetched instead of nothing").mattered);
    assert!(choice(&report, "a read lock a frame instead of none, 2 threads").mattered);
    let first = &report.choices[0];
    assert!(report.conclusions[0].contains(&first.words) && first.mattered);
}

#[test]
fn every_row_of_the_post_stands_beside_its_step_labelled_as_other_hardware() {
    let report = report();
    assert!(report.published.rows.iter().all(|row| row.step.is_some()));
    let (text, page) = (
        report.page().to_text().replace('\n', " "),
        report.page().to_html(),
    );
    assert!(text.contains("other hardware: Sandy Bridge"));
    assert!(page.contains("other hardware: Sandy Bridge"));
    assert!(text.contains("2 threads here"), "{text}");
}

#[test]
fn the_text_fits_a_hundred_columns_and_the_page_closes_what_it_opens() {
    let report = report();
    for line in report.page().to_text().lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    let page = report.page().to_html();
    for name in ["section", "table", "svg", "figure", "div", "details"] {
        let (opened, closed) = (format!("<{name}"), format!("</{name}>"));
        assert_eq!(
            page.matches(&opened).count(),
            page.matches(&closed).count(),
            "{name}"
        );
    }
    assert!(!page.contains("<script") && !page.contains("http"));
}

#[test]
fn the_document_is_read_back_as_written() {
    let report = report();
    assert_eq!(
        ClassifyReport::from_json(&report.to_json().unwrap()).unwrap(),
        report
    );
}
