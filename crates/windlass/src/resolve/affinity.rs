//! Whether a persistent volume may be used on this node (E-250 step 2, P-45).
//!
//! Like the kubelet, this looks at the node's labels alone: terms on its fields are not considered.

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use std::collections::{BTreeMap, BTreeSet};

/// Fails with the reason if no term fits the labels.
pub(super) fn check(selector: &NodeSelector, labels: &BTreeMap<String, String>) -> Result<(), String> {
    let mut trouble = Vec::new();
    for term in selector.node_selector_terms.iter().filter(|it| !is_empty(it)) {
        match fits(term, labels) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(text) => trouble.push(text),
        }
    }
    Err(if trouble.is_empty() { "no matching NodeSelectorTerms".into() } else { trouble.join(", ") })
}

/// What the terms ask for, for people.
pub(super) fn wanted(selector: &NodeSelector) -> String {
    let spelled = |it: &NodeSelectorRequirement| match it.values.as_deref().unwrap_or_default() {
        [] => format!("{} {}", it.key, it.operator),
        values => format!("{} {} [{}]", it.key, it.operator, values.join(" ")),
    };
    let term = |it: &NodeSelectorTerm| {
        let all: Vec<_> = it.match_expressions.iter().flatten().map(spelled).collect();
        all.join(" and ")
    };
    let terms: Vec<_> = selector.node_selector_terms.iter().map(term).filter(|it| !it.is_empty()).collect();
    if terms.is_empty() { "nothing that any node can have".into() } else { terms.join(", or ") }
}

/// Those of the labels that the terms ask about, for people.
pub(super) fn relevant(selector: &NodeSelector, labels: &BTreeMap<String, String>) -> String {
    let asked = selector.node_selector_terms.iter().flat_map(|it| it.match_expressions.iter().flatten());
    let keys: BTreeSet<&str> = asked.map(|it| it.key.as_str()).collect();
    let spelled = |key: &str| match labels.get(key) {
        Some(value) => format!("{key}={value}"),
        None => format!("no {key}"),
    };
    let all: Vec<_> = keys.into_iter().map(spelled).collect();
    if all.is_empty() { "other labels".into() } else { all.join(", ") }
}

/// A term that says nothing fits nothing.
fn is_empty(term: &NodeSelectorTerm) -> bool {
    let none = |it: &Option<Vec<_>>| it.as_ref().is_none_or(Vec::is_empty);
    none(&term.match_expressions) && none(&term.match_fields)
}

fn fits(term: &NodeSelectorTerm, labels: &BTreeMap<String, String>) -> Result<bool, String> {
    let mut all = true;
    for requirement in term.match_expressions.iter().flatten() {
        all &= meets(requirement, labels)?;
    }
    Ok(all)
}

fn meets(requirement: &NodeSelectorRequirement, labels: &BTreeMap<String, String>) -> Result<bool, String> {
    let NodeSelectorRequirement { key, operator, values } = requirement;
    let values = values.as_deref().unwrap_or_default();
    let label = labels.get(key);
    let listed = label.is_some_and(|it| values.contains(it));
    match operator.as_str() {
        "In" | "NotIn" if values.is_empty() => Err(format!("{operator} of label {key} needs values")),
        "In" => Ok(listed),
        "NotIn" => Ok(!listed),
        "Exists" | "DoesNotExist" if !values.is_empty() => Err(format!("{operator} of label {key} takes no values")),
        "Exists" => Ok(label.is_some()),
        "DoesNotExist" => Ok(label.is_none()),
        "Gt" | "Lt" => {
            let [bound] = values else { return Err(format!("{operator} of label {key} needs one value")) };
            let bound: i64 =
                bound.parse().map_err(|_| format!("{operator} of label {key} needs a number, not \"{bound}\""))?;
            let number: Option<i64> = label.and_then(|it| it.parse().ok());
            Ok(number.is_some_and(|it| if operator == "Gt" { it > bound } else { it < bound }))
        }
        _ => Err(format!("\"{operator}\" is not a valid label selector operator")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::serde_json::{self, Value, json};

    fn check_terms(terms: &Value) -> Result<(), String> {
        let selector: NodeSelector = serde_json::from_value(json!({ "nodeSelectorTerms": terms })).unwrap();
        let labels = BTreeMap::from([("zone".to_string(), "a".to_string()), ("disks".to_string(), "4".to_string())]);
        check(&selector, &labels)
    }

    fn one(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
    }

    #[test]
    fn operators_are_those_of_node_selectors() {
        for (operator, key, values, expected) in [
            ("In", "zone", &["a", "b"][..], true),
            ("In", "zone", &["b"], false),
            ("In", "rack", &["a"], false),
            ("NotIn", "zone", &["b"], true),
            ("NotIn", "zone", &["a"], false),
            ("NotIn", "rack", &["a"], true),
            ("Exists", "zone", &[], true),
            ("Exists", "rack", &[], false),
            ("DoesNotExist", "rack", &[], true),
            ("DoesNotExist", "zone", &[], false),
            ("Gt", "disks", &["3"], true),
            ("Gt", "disks", &["4"], false),
            ("Lt", "disks", &["5"], true),
            ("Lt", "zone", &["5"], false),
            ("Lt", "rack", &["5"], false),
        ] {
            let expected = if expected { Ok(()) } else { Err("no matching NodeSelectorTerms".to_string()) };
            assert_eq!(check_terms(&json!([one(key, operator, values)])), expected, "{key} {operator} {values:?}");
        }
    }

    #[test]
    fn one_term_is_enough_and_all_of_its_expressions_are_needed() {
        let (yes, no) = (one("zone", "In", &["a"]), one("zone", "In", &["b"]));
        assert_eq!(check_terms(&json!([no, yes])), Ok(()));
        let both = json!({"matchExpressions": [yes["matchExpressions"][0], no["matchExpressions"][0]]});
        assert!(check_terms(&json!([both])).is_err());
    }

    #[test]
    fn what_is_asked_and_what_there_is_can_be_told() {
        let terms = json!([one("zone", "In", &["b", "c"]), {}, one("rack", "Exists", &[])]);
        let selector: NodeSelector = serde_json::from_value(json!({ "nodeSelectorTerms": terms })).unwrap();
        let labels = BTreeMap::from([("zone".to_string(), "a".to_string()), ("disks".to_string(), "4".to_string())]);
        assert_eq!(wanted(&selector), "zone In [b c], or rack Exists");
        assert_eq!(relevant(&selector, &labels), "no rack, zone=a");
        let none = NodeSelector { node_selector_terms: Vec::new() };
        assert_eq!(wanted(&none), "nothing that any node can have");
    }

    #[test]
    fn nothing_fits_no_terms_or_empty_ones() {
        assert!(check_terms(&json!([])).is_err());
        assert!(check_terms(&json!([{}])).is_err());
        assert_eq!(check_terms(&json!([{}, one("zone", "Exists", &[])])), Ok(()));
    }

    #[test]
    fn fields_are_not_considered() {
        let fields = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["elsewhere"]}]});
        assert_eq!(check_terms(&json!([fields])), Ok(()));
    }

    #[test]
    fn a_term_that_makes_no_sense_says_why_unless_another_fits() {
        for (operator, values, why) in [
            ("Near", &["a"][..], "\"Near\" is not a valid label selector operator"),
            ("In", &[], "In of label zone needs values"),
            ("Exists", &["a"], "Exists of label zone takes no values"),
            ("Gt", &["1", "2"], "Gt of label zone needs one value"),
            ("Gt", &["x"], "Gt of label zone needs a number, not \"x\""),
        ] {
            let term = one("zone", operator, values);
            assert_eq!(check_terms(&json!([term])), Err(why.into()));
            assert_eq!(check_terms(&json!([term, one("zone", "Exists", &[])])), Ok(()));
        }
    }
}
