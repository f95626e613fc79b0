//! How flaws are printed.

use crate::{place, refuse};

fn printed(text: &str) -> String {
    refuse(text).iter().map(place).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_misspelt_key() {
    let text = "name: report\nsteps:\n  - id: send\n    type: http\n    url: https://example.com\n    depend_on: [make]\n    timeuot: 5m\n";
    insta::assert_snapshot!(printed(text), @r#"
    6:5 steps[0].depend_on: unknown key depend_on
          depend_on: [make]
          ^^^^^^^^^
      try: depends_on
    7:5 steps[0].timeuot: unknown key timeuot
          timeuot: 5m
          ^^^^^^^
      try: timeout
    "#);
}

#[test]
fn a_dependency_that_is_not_there() {
    let text = "name: report\nsteps:\n  - { id: make-report, type: noop }\n  - { id: send, type: noop, depends_on: [make_report, send] }\n";
    insta::assert_snapshot!(printed(text), @r#"
    4:42 steps[1].depends_on[0]: there is no step make_report
        - { id: send, type: noop, depends_on: [make_report, send] }
                                               ^^^^^^^^^^^
      try: make-report
    4:55 steps[1].depends_on[1]: step send waits for itself
        - { id: send, type: noop, depends_on: [make_report, send] }
                                                            ^^^^
      try: leave it out
    "#);
}

#[test]
fn nobody_is_told_to_name_itself() {
    let text = "name: report\nsteps:\n  - { id: send, type: noop, depends_on: [sent] }\n  - { id: tell, type: noop, depends_on: [tels] }\n  - { id: tells, type: noop }\n";
    insta::assert_snapshot!(printed(text), @r#"
    3:42 steps[0].depends_on[0]: there is no step sent
        - { id: send, type: noop, depends_on: [sent] }
                                               ^^^^
    4:42 steps[1].depends_on[0]: there is no step tels
        - { id: tell, type: noop, depends_on: [tels] }
                                               ^^^^
      try: tells
    "#);
}

#[test]
fn a_cycle() {
    let text = "name: report\nsteps:\n  - { id: a, type: noop, depends_on: c }\n  - { id: b, type: noop, depends_on: [a] }\n  - { id: c, type: noop, depends_on: [b] }\n  - { id: d, type: noop, depends_on: [a, e] }\n  - { id: e, type: noop, depends_on: [d] }\n";
    insta::assert_snapshot!(printed(text), @r#"
    3:38 steps[0].depends_on: steps wait for each other: a → c → b → a
        - { id: a, type: noop, depends_on: c }
                                           ^
    6:42 steps[3].depends_on[1]: steps wait for each other: d → e → d
        - { id: d, type: noop, depends_on: [a, e] }
                                               ^
    "#);
}

#[test]
fn a_bad_cron_expression_and_zone() {
    let text = "name: report\ntriggers:\n  - id: morning\n    type: schedule\n    cron: \"0 25 * * MON\"\n    timezone: Europe/Berln\n    overlap: skipp\n    catch_up: { policy: all, limits: 3 }\n    rol: next\nsteps: []\n";
    insta::assert_snapshot!(printed(text), @r#"
    5:14 triggers[0].cron: hour 25 is out of range
          cron: "0 25 * * MON"
                   ^^
      allowed: 0-23
      try: 0 23 * * MON
    6:15 triggers[0].timezone: no such time zone
          timezone: Europe/Berln
                    ^^^^^^^^^^^^
      allowed: an IANA name such as Europe/Berlin, or UTC
      try: Europe/Berlin
    7:14 triggers[0].overlap: expected an overlap policy, found skipp
          overlap: skipp
                   ^^^^^
      allowed: skip, queue, queue_all, cancel, allow, error
      try: skip
    8:30 triggers[0].catch_up.limits: unknown key limits
          catch_up: { policy: all, limits: 3 }
                                   ^^^^^^
      try: limit
    9:5 triggers[0].rol: unknown key rol
          rol: next
          ^^^
      try: roll
    "#);
}

#[test]
fn durations() {
    let text = "name: report\ntimeout: 5 minutes\nsteps:\n  - id: a\n    type: noop\n    timeout: 2 working hours\n    retry: { max: 0, delay: 1h, max_delay: 5m, factor: .5 }\n";
    insta::assert_snapshot!(printed(text), @r#"
    2:10 timeout: 5 has no unit
      timeout: 5 minutes
               ^
      allowed: numbers with ms, s, m, h, d or w, such as 90s, 5m, 1h30m, 1d
      try: 5s, 5m or 5h
    6:14 steps[0].timeout: working time is not possible here
          timeout: 2 working hours
                   ^^^^^^^^^^^^^^^
      allowed: elapsed time, such as 30s, 5m, 1h30m or 1d
    7:19 steps[0].retry.max: 0 is out of range
          retry: { max: 0, delay: 1h, max_delay: 5m, factor: .5 }
                        ^
      allowed: 1 to 100
    7:44 steps[0].retry.max_delay: the longest delay is shorter than the first one
          retry: { max: 0, delay: 1h, max_delay: 5m, factor: .5 }
                                                 ^^
      allowed: at least 1h
    7:56 steps[0].retry.factor: .5 is not a number in the usual form
          retry: { max: 0, delay: 1h, max_delay: 5m, factor: .5 }
                                                             ^^
      allowed: 1 to 100
    "#);
}

#[test]
fn the_same_id_twice() {
    let text = "name: report\nsteps:\n  - id: send\n    type: noop\n  - id: send\n    type: noop\n    type: exec\n";
    insta::assert_snapshot!(printed(text), @r#"
    5:9 steps[1].id: the id send is used on line 3 and again on line 5
        - id: send
              ^^^^
    7:5 steps[1].type: type is given twice, first on line 6
          type: exec
          ^^^^
    "#);
}

#[test]
fn expressions() {
    let text = "name: report\nsteps:\n  - { id: make-it, type: noop }\n  - id: tell\n    type: http\n    url: \"https://example.com/{{ input.id }}/{{ imput.day }}\"\n    body: { a: [\"{{ steps.make-ti.output }}\"], b: \"{{ steps.make-it.output\" }\n    condition: steps.make-it.output > 3 and secrets.key\n    on_error: { goto_step: tel }\n  - { id: last, type: exec, command: [echo, \"{{ input.a | uper }}\"], depends_on: tell, condition: \"steps.late.status == 'x'\" }\n  - { id: late, type: timer, delay: \"{{ item }}\", timeout: 5m }\n";
    insta::assert_snapshot!(printed(text), @r#"
    6:49 steps[1].url: unknown name imput
          url: "https://example.com/{{ input.id }}/{{ imput.day }}"
                                                      ^^^^^
      allowed: input, steps, run, workflow, secrets
      try: input
    7:21 steps[1].body.a[0]: there is no step make-ti
          body: { a: ["{{ steps.make-ti.output }}"], b: "{{ steps.make-it.outp…
                          ^^^^^^^^^^^^^^^^^^^^
      try: make-it
    7:52 steps[1].body.b: this template has no end
      …ake-ti.output }}"], b: "{{ steps.make-it.output" }
                               ^^
      try: }} after the expression
    8:16 steps[1].condition: step make-it cannot have run before this one
          condition: steps.make-it.output > 3 and secrets.key
                     ^^^^^^^^^^^^^^^^^^^^
      try: depends_on: [make-it]
    8:45 steps[1].condition: secrets are known only to what is performed
          condition: steps.make-it.output > 3 and secrets.key
                                                  ^^^^^^^
      allowed: input, steps, run, workflow
    9:28 steps[1].on_error.goto_step: there is no step tel
          on_error: { goto_step: tel }
                                 ^^^
    10:59 steps[2].command[1]: unknown filter uper
      …d: [echo, "{{ input.a | uper }}"], depends_on: tell, condition: "steps.l…
                               ^^^^
      allowed: default, first, float, int, join, last, length, lower, replace, round, string, tojson, trim, upper
      try: upper
    10:100 steps[2].condition: step late cannot have run before this one
      …s_on: tell, condition: "steps.late.status == 'x'" }
                               ^^^^^^^^^^^^^^^^^
      try: depends_on: [late]
    11:41 steps[3].delay: item is not known here
        - { id: late, type: timer, delay: "{{ item }}", timeout: 5m }
                                              ^^^^
      allowed: input, steps, run, workflow
    11:60 steps[3].timeout: a step of type timer has no timeout
        - { id: late, type: timer, delay: "{{ item }}", timeout: 5m }
                                                                 ^^
      try: leave it out, or deadline: { within: 1h, actions: [ { at: deadline, fail: true } ] }
    "#);
}

#[test]
fn gateways_and_jumps() {
    let text = "name: report\nsteps:\n  - id: choose\n    type: gateway\n    kind: exclusiv\n    routes:\n      - { condition: input.a > 1, target: a }\n      - { target: nobody }\n    depends_on: a\n  - { id: a, type: noop }\n  - { id: h, type: noop, on_error: skip }\n  - { id: x, type: noop, depends_on: y, on_error: 'goto_step: y' }\n  - { id: y, type: noop, on_error: { goto_step: y } }\n";
    insta::assert_snapshot!(printed(text), @r#"
    5:11 steps[0].kind: exclusiv is not known here
          kind: exclusiv
                ^^^^^^^^
      allowed: exclusive, parallel, inclusive
      try: exclusive
    8:19 steps[0].routes[1].target: there is no step nobody
            - { target: nobody }
                        ^^^^^^
    9:17 steps[0].depends_on: steps wait for each other: choose → a → choose
          depends_on: a
                      ^
    11:36 steps[2].on_error: skip is not known here
        - { id: h, type: noop, on_error: skip }
                                         ^^^^
      allowed: fail_process, skip_step, { goto_step: id }
    13:49 steps[4].on_error.goto_step: a step cannot go on with itself; retry does that
        - { id: y, type: noop, on_error: { goto_step: y } }
                                                      ^
    "#);
    let text = "name: report\nsteps:\n  - { id: a, type: noop }\n  - { id: x, type: noop, on_error: 'goto_step: y' }\n  - { id: y, type: noop, on_error: 'goto_step: x' }\n  - { id: z, type: noop, depends_on: y }\n";
    insta::assert_snapshot!(printed(text), @r#"
    4:7 steps[1]: never reached: it begins by a jump from a step that is never reached
        - { id: x, type: noop, on_error: 'goto_step: y' }
            ^^
    5:7 steps[2]: never reached: it begins by a jump from a step that is never reached
        - { id: y, type: noop, on_error: 'goto_step: x' }
            ^^
    6:7 steps[3]: never reached: it waits for a step that is never reached
        - { id: z, type: noop, depends_on: y }
            ^^
    "#);
}

#[test]
fn deadlines() {
    let text = "name: report\ndeadline: { within: 2 working days }\nsteps:\n  - id: a\n    type: human_approval\n    title: Pay?\n    deadline:\n      at: 25:00\n      actions:\n        - { at: 120%, notify: { email: nobody } }\n        - { before: 1h, after: 2h, fail: true }\n        - { after: 1d }\n        - { after: 1d, fail: true, skip: true, notfy: [] }\n";
    insta::assert_snapshot!(printed(text), @r#"
    2:21 deadline.within: working time needs a calendar
      deadline: { within: 2 working days }
                          ^^^^^^^^^^^^^^
      try: calendar: US, or the id of a calendar, at the top of the definition
    8:11 steps[0].deadline.at: 25:00 is not a time of day
            at: 25:00
                ^^^^^
      allowed: 00:00 to 23:59
      try: "17:00"
    10:17 steps[0].deadline.actions[0].at: the text 120% is neither a share nor the deadline
              - { at: 120%, notify: { email: nobody } }
                      ^^^^
      allowed: more than 0% to 100%, or deadline
      try: 80%
    10:40 steps[0].deadline.actions[0].notify.email: nobody is not an address
              - { at: 120%, notify: { email: nobody } }
                                             ^^^^^^
      try: approver@example.com
    11:13 steps[0].deadline.actions[1]: an action has one time: at, before or after
              - { before: 1h, after: 2h, fail: true }
                  ^^^^^^
      try: at: 80%, at: deadline, before: 1h or after: 2h
    12:13 steps[0].deadline.actions[2]: this action does nothing
              - { after: 1d }
                  ^^^^^
      try: notify, start, fail, cancel, complete or skip
    13:13 steps[0].deadline.actions[3]: an action ends the work in one way
              - { after: 1d, fail: true, skip: true, notfy: [] }
                  ^^^^^
      allowed: one of fail, cancel, complete, skip
    13:48 steps[0].deadline.actions[3].notfy: unknown key notfy
              - { after: 1d, fail: true, skip: true, notfy: [] }
                                                     ^^^^^
      try: notify
    "#);
}

#[test]
fn a_request() {
    let text = "name: report\nsteps:\n  - id: send\n    type: http\n    method: get\n    url: example.com/reports\n    headers: { Host: example.com, \"Bad Name\": x, X-Count: 5, X-Line: \"a\\nb\" }\n    expect: [200, 999]\n";
    insta::assert_snapshot!(printed(text), @r#"
    5:13 steps[0].method: get is not a method
          method: get
                  ^^^
      allowed: GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS
      try: GET
    6:10 steps[0].url: a URL begins with http:// or https://
          url: example.com/reports
               ^^^^^^^^^^^^^^^^^^^
      allowed: http:// or https://, at most 8192 bytes
      try: https://example.com/reports
    7:16 steps[0].headers.Host: the header Host is set by whoever sends the request
          headers: { Host: example.com, "Bad Name": x, X-Count: 5, X-Line: "a\…
                     ^^^^
      try: leave it out
    7:35 steps[0].headers.Bad Name: Bad Name is not the name of a header
      …s: { Host: example.com, "Bad Name": x, X-Count: 5, X-Line: "a\nb" }
                               ^^^^^^^^^^
    7:59 steps[0].headers.X-Count: expected a text, found the number 5
      …"Bad Name": x, X-Count: 5, X-Line: "a\nb" }
                               ^
      try: "5"
    7:70 steps[0].headers.X-Line: not a value of a header
      … x, X-Count: 5, X-Line: "a\nb" }
                               ^^^^^^
      allowed: one line without control characters, no space at either end
    8:19 steps[0].expect[1]: 999 is out of range
          expect: [200, 999]
                        ^^^
      allowed: 100 to 599
    "#);
}

#[test]
fn a_command() {
    let text = "name: report\nsteps:\n  - { id: a, type: exec, command: make all }\n  - { id: b, type: exec, command: [make, 5], env: { 1X: a } }\n  - { id: c, type: exec, shell: yes, command: [] }\n";
    insta::assert_snapshot!(printed(text), @r#"
    3:35 steps[0].command: a command is a list; a text needs a shell
        - { id: a, type: exec, command: make all }
                                        ^^^^^^^^
      try: [make, all], or shell: true beside it
    4:42 steps[1].command[1]: expected a text, found the number 5
        - { id: b, type: exec, command: [make, 5], env: { 1X: a } }
                                               ^
      try: "5"
    4:53 steps[1].env.1X: 1X is not the name of a variable
        - { id: b, type: exec, command: [make, 5], env: { 1X: a } }
                                                          ^^
      allowed: letters, digits and _, not beginning with a digit
    5:33 steps[2].shell: expected true or false, found the text yes
        - { id: c, type: exec, shell: yes, command: [] }
                                      ^^^
      try: true
    5:47 steps[2].command: an empty command
        - { id: c, type: exec, shell: yes, command: [] }
                                                    ^^
      try: [echo, hello]
    "#);
}

#[test]
fn calendars() {
    let text = "name: report\ncalendar: offce\ncalendars:\n  - id: office\n    timezone: Europe/Berlin\n    hours: { mon-fri: [\"09:00-25:00\"] }\n    holidays: [ { cuontry: DE }, 2026-13-01 ]\n  - { id: both, union: [office, nobody] }\ntriggers:\n  - { id: x, type: schedule, monthly: { working_day: 1 }, calendar: ofice }\nsteps: []\n";
    insta::assert_snapshot!(printed(text), @r#"
    2:11 calendar: no such calendar or region
      calendar: offce
                ^^^^^
      allowed: the id of a calendar, or a region such as US or DE-BY
      try: office
    6:24 calendars[0].hours.mon-fri: not a time of day
          hours: { mon-fri: ["09:00-25:00"] }
                             ^^^^^^^^^^^^^
      allowed: 00:00 to 24:00
      try: 09:00
    7:19 calendars[0].holidays[0].cuontry: unknown key cuontry
          holidays: [ { cuontry: DE }, 2026-13-01 ]
                        ^^^^^^^
      allowed: country, subdiv, subdivision, ics, date, from, to, name, hours
      try: country
    8:7 calendars[1].timezone: the calendar has no time zone
        - { id: both, union: [office, nobody] }
            ^^
      try: timezone: Europe/Berlin
    8:33 calendars[1].union[1]: no such calendar
        - { id: both, union: [office, nobody] }
                                      ^^^^^^
      try: a calendar declared before this one, or a region such as DE-BY
    10:41 triggers[0].monthly: at is missing
      …e: schedule, monthly: { working_day: 1 }, calendar: ofice }
                               ^^^^^^^^^^^
    10:69 triggers[0].calendar: no such calendar or region
      …ing_day: 1 }, calendar: ofice }
                               ^^^^^
      allowed: the id of a calendar, or a region such as US or DE-BY
      try: office
    "#);
}

#[test]
fn an_unquoted_cron_expression() {
    insta::assert_snapshot!(printed("name: t\ntriggers:\n  - id: x\n    type: schedule\n    cron: */5 * * * *\n"), @r#"
    5:11 triggers[0].cron: a text that begins with * must be quoted
          cron: */5 * * * *
                ^^^
      try: cron: "*/5 * * * *"
    "#);
}

#[test]
fn yaml_that_is_not_read() {
    let all: Vec<String> = [
        "name: t\nsteps: [\n",
        "name: t\n  steps: []\n",
        "name: &a t\nsteps: []\n",
        "name: t\nsteps: [{<<: {a: 1}}]\n",
        "name: !Secret t\n",
        "name: t\n---\nname: u\n",
        "%YAML 1.1\n---\nname: t\n",
        "name: t\nsteps: {{ steps }}\n",
        "- name: t\n",
        "just a text",
        "",
    ]
    .iter()
    .map(|text| printed(text))
    .collect();
    insta::assert_snapshot!(all.join("\n"), @r#"
    2:8 steps[0]: not readable: unclosed bracket '['
      steps: [
             ^
    2:8 : not readable: mapping values are not allowed in this context
        steps: []
             ^
      try: the same indentation as the line before, or quotes around a text with a colon
    1:7 name: anchors (&name) are not read
      name: &a t
            ^^
      try: leave it out, or quote a text that begins with &
    2:10 steps[0]: merge keys are not read
      steps: [{<<: {a: 1}}]
               ^^
      try: write the merged keys out
    1:7 name: the tag !Secret is not read
      name: !Secret t
            ^^^^^^^
      try: leave it out, or quote the text
    2:1 : a second document begins here
      ---
      ^^^
      allowed: one definition in a text
    1:1 : directives (%…) are not read
      %YAML 1.1
      ^
      try: leave the line out
    2:8 steps: a text that begins with {{ must be quoted
      steps: {{ steps }}
             ^^
      try: "{{ … }}"
    1:3 : expected a mapping, found a list
      - name: t
        ^^^^
      try: name: my-workflow
    1:1 : expected a mapping, found the text just a text
      just a text
      ^^^^^^^^^^^
      try: name: my-workflow
    1:1 : the definition is empty
      try: name: my-workflow
    "#);
}

#[test]
fn nothing_after_a_key() {
    insta::assert_snapshot!(printed("name: t\ntimeout:\nsteps:\n\ntriggers:\n  - id:\n    type: manual\n"), @r#"
    2:1 timeout: expected a duration such as 30s, 5m or 1h30m, found nothing
      timeout:
      ^^^^^^^
    3:1 steps: expected a list, found nothing
      steps:
      ^^^^^
    6:5 triggers[0].id: expected a text, found nothing
        - id:
          ^^
    "#);
}
