// SPDX-License-Identifier: GPL-2.0-only

//! The queries of the dashboard for Grafana.

use anyhow::{Context as _, Result};
use serde::Deserialize;

const DASHBOARD: &str = include_str!("../../../../packaging/monitoring/doubledecker.json");

/// A query of a panel.
#[derive(Clone, Debug)]
pub struct Query {
    /// The title of its panel.
    pub panel: String,
    /// The expression, without variables of Grafana.
    pub expression: String,
    /// The text of the legend, with names of labels in double braces.
    pub legend: String,
}

#[derive(Deserialize)]
struct Dashboard {
    panels: Vec<Panel>,
    templating: Templating,
}

#[derive(Deserialize)]
struct Panel {
    title: String,
    #[serde(default)]
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    expr: String,
    #[serde(rename = "legendFormat")]
    legend: String,
}

#[derive(Deserialize)]
struct Templating {
    list: Vec<Variable>,
}

#[derive(Deserialize)]
struct Variable {
    name: String,
    /// The query for its values; absent if it chooses the data source.
    definition: Option<String>,
}

/// Returns the queries of all panels, and those for the values of variables. Each variable stands
/// for all its values, and rates are those of `window` (such as `5m`).
///
/// # Errors
///
/// Fails if the dashboard has another form.
pub fn dashboard(window: &str) -> Result<Vec<Query>> {
    let Dashboard { panels, templating } =
        serde_json::from_str(DASHBOARD).context("the dashboard has another form")?;
    let mut queries = Vec::new();
    for Panel { title, targets } in panels {
        queries.extend(targets.into_iter().map(|target| Query {
            panel: title.clone(),
            expression: target.expr,
            legend: target.legend,
        }));
    }
    for Variable { name, definition } in &templating.list {
        let Some(definition) = definition else {
            continue;
        };
        let values = definition.strip_prefix("label_values(");
        let (expression, label) = values
            .and_then(|values| values.strip_suffix(')')?.rsplit_once(", "))
            .with_context(|| format!("the values of {name} are {definition}"))?;
        queries.push(Query {
            panel: format!("the choice of {name}"),
            expression: expression.to_owned(),
            legend: format!("{{{{{label}}}}}"),
        });
    }
    for query in &mut queries {
        query.expression = query.expression.replace("$__rate_interval", window);
        for Variable { name, .. } in &templating.list {
            query.expression = query.expression.replace(&format!("${name}"), ".*");
        }
    }
    Ok(queries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_variable_of_grafana_is_left() {
        let queries = dashboard("5m").unwrap();
        assert!(queries.len() > 30, "{queries:?}");
        for query in &queries {
            assert!(!query.expression.contains('$'), "{query:?}");
            assert!(!query.legend.contains('$'), "{query:?}");
        }
        let choice = &queries.last().unwrap().expression;
        assert_eq!(choice, "policyd_module_loaded");
    }
}
