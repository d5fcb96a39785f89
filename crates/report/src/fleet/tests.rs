use super::*;
use crate::fixture;
use crate::html::html;
use crate::plots::Chart;
use crate::plots::chart::HeatLevel;
use crate::render::Text;
use tripmeter_model::fleet::{FleetHost, HostsFile, SCHEMA_VERSION, jobs};

fn a_fleet(mode: FleetMode, hosts: usize) -> Fleet {
    let hosts: Vec<String> = (1..=hosts).map(|number| format!("{{name = \"h{number}\"}}")).collect();
    let hosts: Vec<FleetHost> = HostsFile::parse(&format!("hosts = [{}]", hosts.join(","))).unwrap().hosts;
    let jobs = jobs(&hosts, mode, 0, false);
    let (schema_version, command) = (SCHEMA_VERSION.to_owned(), vec!["ping".to_owned()]);
    Fleet { schema_version, mode, command, experiment: None, hosts, jobs }
}

/// Marks each job except the failed ones as measured: half of a round trip is its number in µs, from 1.
fn measured(fleet: &mut Fleet, failed: &[&str]) -> Vec<FleetFigure> {
    let mut figures = Vec::new();
    for (number, job) in (1..).zip(&mut fleet.jobs) {
        if failed.contains(&job.name().as_str()) {
            (job.state, job.problem) = (FleetState::Failed, Some("host 'h2': no route".to_owned()));
            continue;
        }
        job.state = FleetState::Measured;
        let mut manifest = fixture::manifest();
        fixture::add(&mut manifest, "tcp", "tcp/loopback", &[1024]);
        fixture::result(&mut manifest, "tcp", 1, &[(1024, f64::from(number) * 1e3)]);
        figures.extend(fleet_figures(job, &manifest, &Selection::default()));
    }
    figures
}

fn text(document: &Document) -> String {
    Text::default().render(document)
}

/// True if any line has exactly these words.
fn has_row(text: &str, words: &str) -> bool {
    text.lines().any(|line| line.split_whitespace().eq(words.split(' ')))
}

#[test]
fn pairs_are_a_matrix_with_the_best_the_worst_and_what_failed() {
    let mut fleet = a_fleet(FleetMode::Pairs, 3);
    let figures = measured(&mut fleet, &["h1--h3"]);
    assert!(figures.iter().all(|one| one.transport == "tcp/loopback"));
    let pages = ["h2--h3", "h1--h3"].map(str::to_owned).into();
    let results = FleetResults { fleet: &fleet, figures: &figures, pages };
    let screen = text(&super::fleet(&results));
    assert!(screen.starts_with("2 of 3 pairs measured; 1 failed.\n"), "{screen}");
    assert!(["h1 1.00 -", "h2 3.00"].iter().all(|row| has_row(&screen, row)), "{screen}");
    assert!(screen.contains("FAILED: h1--h3: host 'h2': no route"), "{screen}");
    let page = html(&fleet_page(&results), "fleet");
    assert!(page.contains("title=\"h2--h3: 3.00 µs\">3.00</td>"), "{page}");
    assert!(page.contains("title=\"h1--h3: host &#39;h2&#39;: no route\">-</td>"));
    assert!(page.contains("href=\"h2--h3/report.html\"") && !page.contains("href=\"h1--h"));
}

#[test]
fn twenty_hosts_fit_into_80_columns_and_none_measured_is_no_table() {
    let mut fleet = a_fleet(FleetMode::Pairs, 20);
    let figures = measured(&mut fleet, &[]);
    let screen = text(&super::fleet(&FleetResults { fleet: &fleet, figures: &figures, pages: BTreeSet::new() }));
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    assert!(screen.starts_with("190 of 190 pairs measured.\n"), "{screen}");
    let nothing =
        super::fleet(&FleetResults { fleet: &a_fleet(FleetMode::Pairs, 2), figures: &[], pages: BTreeSet::new() });
    assert_eq!(text(&nothing), "0 of 1 pair measured.\n");
}

#[test]
fn hosts_by_themselves_are_rows_and_what_they_measured_columns() {
    let mut fleet = a_fleet(FleetMode::Hosts, 3);
    let figures = measured(&mut fleet, &[]);
    let results = FleetResults { fleet: &fleet, figures: &figures, pages: BTreeSet::new() };
    let screen = text(&super::fleet(&results));
    assert!(["h1 1.00", "h2 2.00", "h3 3.00"].iter().all(|row| has_row(&screen, row)), "{screen}");
    let charts = fleet_page(&results);
    let charts: Vec<&Chart> = charts.charts().collect();
    let heat = charts[0].heat.as_ref().unwrap();
    assert_eq!((heat.rows.len(), heat.cells.len()), (3, 3));
    assert_eq!([0, 2].map(|cell| heat.cells[cell].level), [HeatLevel::Scale(0.0), HeatLevel::Scale(1.0)]);
}
