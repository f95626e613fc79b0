//! The steps of a definition as a graph: which step follows which, and on which condition.

use drawing::graph::{Edge, Graph, Node};
use engine::run::StepState;
use language::definition::{Action, Definition, OnError, Step};

/// Larger definitions are not drawn: nobody finds their way in such a picture.
pub(super) const MOST: usize = 300;
/// How many characters of a condition are written on an edge.
const CONDITION: usize = 40;

/// How one step is drawn: its colour, a note beside its type, and a link.
#[derive(Default)]
pub(super) struct Look {
    pub(super) class: Option<String>,
    pub(super) note: Option<String>,
    pub(super) href: Option<String>,
}

/// The graph of a definition's steps. `look` is called with the index of each step.
pub(super) fn graph(
    title: impl Into<String>,
    definition: &Definition,
    look: impl Fn(usize, &Step) -> Look,
) -> Graph {
    let nodes = definition.steps.iter().enumerate().map(|(index, step)| {
        let Look { class, note, href } = look(index, step);
        Node {
            id: step.id.clone(),
            label: step.name.clone().unwrap_or_else(|| step.id.clone()),
            kind: kind(step),
            state: class,
            href,
            note,
        }
    });
    Graph { title: title.into(), nodes: nodes.collect(), edges: edges(definition) }
}

fn kind(step: &Step) -> String {
    match &step.action {
        Action::ForEach(each) => format!("for each: {}", each.action.name()),
        action => action.name().replace('_', " "),
    }
}

fn edges(definition: &Definition) -> Vec<Edge> {
    let mut edges = Vec::new();
    for step in &definition.steps {
        for before in &step.depends_on {
            let condition = step.condition.as_deref().map(short);
            edges.push(edge(before, &step.id, condition));
        }
        if let Action::Gateway(gateway) = &step.action {
            for route in &gateway.routes {
                edges.push(edge(&step.id, &route.target, route.condition.as_deref().map(short)));
            }
            if let Some(target) = &gateway.default_route {
                edges.push(edge(&step.id, target, Some("otherwise".to_owned())));
            }
        }
        if let OnError::GotoStep(target) = &step.on_error {
            let failed = edge(&step.id, target, Some("if it fails".to_owned()));
            edges.push(Edge { state: Some("is-bad".to_owned()), ..failed });
        }
    }
    edges.retain({
        let named: Vec<(String, String)> = edges
            .iter()
            .filter(|edge| edge.label.is_some())
            .map(|edge| (edge.from.clone(), edge.to.clone()))
            .collect();
        // A gateway's target may also list the gateway in `depends_on`: then only the labelled edge
        // is kept.
        move |edge| {
            edge.label.is_some()
                || !named.iter().any(|(from, to)| *from == edge.from && *to == edge.to)
        }
    });
    edges
}

fn edge(from: &str, to: &str, label: Option<String>) -> Edge {
    Edge { from: from.to_owned(), to: to.to_owned(), label, ..Edge::default() }
}

fn short(condition: &str) -> String {
    let mut text: String = condition.chars().take(CONDITION).collect();
    if text.len() < condition.len() {
        text.push('…');
    }
    text
}

/// The colour of a step that has ended or not begun.
pub(super) fn class(state: StepState) -> &'static str {
    match state {
        StepState::Pending => "is-plain",
        StepState::Active => "is-run",
        StepState::Completed => "is-ok",
        StepState::Failed => "is-bad",
        StepState::Skipped | StepState::Bypassed | StepState::Cancelled => "is-idle",
    }
}
