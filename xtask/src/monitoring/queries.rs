// SPDX-License-Identifier: GPL-2.0-only

//! The queries of the dashboard and of the documents.

use std::fs;

use anyhow::Result;
use ddscenarios::{Query, dashboard};
use regex::Regex;
use serde_json::{Value, json};

use crate::workspace;

/// The document that has a table of expressions.
const DOCUMENT: &str = "docs/users/metrics.md";

/// Returns rules that record all queries, in a form that Prometheus' linter parses.
pub(super) fn as_rules() -> Result<String> {
    let rules: Vec<Value> = all()?
        .into_iter()
        .enumerate()
        .map(|(number, query)| {
            json!({
                "record": format!("query:{number}"),
                // The linter prints the comment with its complaint.
                "expr": format!("# {}\n{}", query.panel, query.expression),
            })
        })
        .collect();
    // JSON is YAML too.
    let rules = json!({ "groups": [{ "name": "queries", "rules": rules }] });
    Ok(serde_json::to_string_pretty(&rules)?)
}

/// Returns the queries of the dashboard, and the expressions of the document.
fn all() -> Result<Vec<Query>> {
    let mut queries = dashboard("5m")?;
    let document = fs::read_to_string(workspace::top().join(DOCUMENT))?;
    let rows = document
        .lines()
        .skip_while(|line| *line != "| question | expression |")
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let quoted = Regex::new("`((?:[a-z_]+\\()?(?:ddhostd|policyd)_[^`]+)`")?;
    for row in rows {
        queries.extend(quoted.captures_iter(row).map(|found| Query {
            panel: DOCUMENT.to_owned(),
            expression: found[1].to_owned(),
            legend: String::new(),
        }));
    }
    Ok(queries)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// The alerts that the packages install.
    const RULES: &str = "packaging/monitoring/doubledecker.rules.yml";
    /// Labels that Prometheus adds, or that the files with the targets have.
    const ADDED: [&str; 4] = ["host", "instance", "job", "vm_name"];

    /// Returns the labels of each metric, as the tables list them. The tests of the daemons check
    /// that the tables agree with what the programs export.
    fn tables() -> BTreeMap<String, BTreeSet<String>> {
        let document = fs::read_to_string(workspace::top().join(DOCUMENT)).unwrap();
        let row = Regex::new(r"(?m)^\| `([a-z_]+)` \| ([a-z]+) \| ([^|]+) \|").unwrap();
        // Prometheus itself has this metric of each target.
        let mut tables = BTreeMap::from([("up".to_owned(), ADDED.map(str::to_owned).into())]);
        for found in row.captures_iter(&document) {
            let quoted = found[3].split('`').skip(1).step_by(2);
            let mut labels: BTreeSet<String> = quoted.map(str::to_owned).collect();
            labels.extend(ADDED.map(str::to_owned));
            let name = match &found[2] {
                "histogram" => {
                    labels.insert("le".to_owned());
                    format!("{}_bucket", &found[1])
                }
                _ => found[1].to_owned(),
            };
            tables.insert(name, labels);
        }
        tables
    }

    fn words(text: &str) -> impl Iterator<Item = &str> {
        text.split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
    }

    /// Returns what is wrong with a query: a metric or a label that does not exist.
    fn complaint(query: &Query, tables: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
        let selector = Regex::new(r"\b((?:ddhostd|policyd)_[a-z_]+|up)\b(?:\{([^}]*)\})?").unwrap();
        let matcher = Regex::new(r#"([a-z_]+)\s*(?:=~|!~|!=|=)\s*"[^"]*""#).unwrap();
        let group = Regex::new(r"\b(?:by|without|on|ignoring) ?\(([^)]*)\)").unwrap();
        let kept = Regex::new(r"\bby ?\(([^)]*)\)").unwrap();
        let legend = Regex::new(r"\{\{([^}]*)\}\}").unwrap();
        let expression = &query.expression;
        let mut union = BTreeSet::new();
        for found in selector.captures_iter(expression) {
            let Some(labels) = tables.get(&found[1]) else {
                return Some(format!("nothing exports {}", &found[1]));
            };
            let matchers = found.get(2).map_or("", |matchers| matchers.as_str());
            for label in matcher.captures_iter(matchers) {
                if !labels.contains(&label[1]) {
                    return Some(format!("{} has no label {}", &found[1], &label[1]));
                }
            }
            union.extend(labels.iter().map(String::as_str));
        }
        if union.is_empty() {
            return Some("there is no metric".to_owned());
        }
        for found in group.captures_iter(expression) {
            let (_, [labels]) = found.extract();
            if let Some(wrong) = words(labels).find(|label| !union.contains(label)) {
                return Some(format!("no metric has the label {wrong}"));
            }
        }
        // A sum has no other labels than those that it is made by.
        if let Some(found) = kept.captures(expression) {
            let (_, [labels]) = found.extract();
            union = words(labels).filter(|label| *label != "le").collect();
        }
        legend.captures_iter(&query.legend).find_map(|found| {
            let missing = !union.contains(&found[1]);
            missing.then(|| format!("the legend has {}, and the result does not", &found[1]))
        })
    }

    #[test]
    fn queries_have_only_metrics_and_labels_that_exist() {
        let tables = tables();
        let queries = all().unwrap();
        let documented = queries.iter().filter(|query| query.panel == DOCUMENT);
        assert!(documented.count() > 6, "{queries:?}");
        for query in &queries {
            assert_eq!(complaint(query, &tables), None, "{query:?}");
        }
    }

    /// Returns the expressions of the alerts, with their texts in place of legends.
    fn alerts() -> Vec<Query> {
        let rules = fs::read_to_string(workspace::top().join(RULES)).unwrap();
        let label = Regex::new(r"\{\{ \$labels\.([a-z_]+) \}\}").unwrap();
        let alert = |rule: &str| {
            let (name, rest) = rule.split_once('\n').unwrap();
            let (_, rest) = rest.split_once("expr: ").unwrap();
            let (expression, texts) = rest.split_once("labels:\n").unwrap();
            Query {
                panel: name.to_owned(),
                expression: expression.to_owned(),
                legend: label.replace_all(texts, "{{$1}}").into_owned(),
            }
        };
        rules.split("- alert: ").skip(1).map(alert).collect()
    }

    /// An alert with a metric or a label that does not exist never fires, or does not say for what.
    #[test]
    fn alerts_have_only_metrics_and_labels_that_exist() {
        let tables = tables();
        let alerts = alerts();
        assert!(alerts.len() > 10, "{alerts:?}");
        let named = alerts.iter().filter(|alert| !alert.legend.contains("{{"));
        assert_eq!(named.count(), 0, "{alerts:?}");
        for alert in &alerts {
            assert_eq!(complaint(alert, &tables), None, "{alert:?}");
        }
        let mut wrong = alerts[0].clone();
        wrong.legend = "{{path}}".to_owned();
        assert!(complaint(&wrong, &tables).is_some());
    }

    #[test]
    fn unknown_metrics_and_labels_are_found() {
        let tables = tables();
        let query = |expression: &str, legend: &str| Query {
            panel: String::new(),
            expression: expression.to_owned(),
            legend: legend.to_owned(),
        };
        for (expression, legend) in [
            ("ddhostd_vm_hits", ""),
            ("ddhostd_vm_weight{container=\"a\"}", ""),
            (
                "sum by (le, pool) (rate(ddhostd_vm_get_duration_seconds_bucket[5m]))",
                "",
            ),
            (
                "sum by (store) (rate(ddhostd_vm_get_duration_seconds_bucket[5m]))",
                "{{tier}}",
            ),
            ("ddhostd_vm_weight", "{{container}}"),
            ("vector(1)", ""),
        ] {
            let complaint = complaint(&query(expression, legend), &tables);
            assert!(complaint.is_some(), "{expression} {legend}");
        }
        let sum = "sum by (store) (rate(ddhostd_vm_get_duration_seconds_bucket{vm=\"1\"}[5m]))";
        assert_eq!(complaint(&query(sum, "{{store}}"), &tables), None);
    }

    /// The expressions that join a host and its guests are tested by promtool.
    #[test]
    fn joins_in_the_document_are_tested() {
        let path = "packaging/monitoring/doubledecker.rules.test.yml";
        let tests = fs::read_to_string(workspace::top().join(path)).unwrap();
        let queries = all().unwrap();
        let is_join = |query: &&Query| query.expression.contains(" on (");
        let joins: Vec<_> = queries.iter().filter(is_join).collect();
        assert!(joins.len() > 1);
        for join in joins {
            let line = format!("  - expr: {}\n", join.expression);
            assert!(tests.contains(&line), "{}", join.expression);
        }
    }
}
