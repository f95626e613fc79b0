//! Templates that would become part of a program, and those that stay arguments.

use crate::{accept, refuse};

fn definition(step: &str) -> String {
    format!("name: t\nsteps: [{{id: a, type: exec, {step}}}]")
}

/// Checks that a step is refused for the template at this path, and with a remedy.
#[track_caller]
fn check_refused(step: &str, path: &str) {
    let flaws = refuse(&definition(step));
    let [flaw] = &flaws[..] else { panic!("{step}: {flaws:?}") };
    assert_eq!((flaw.code, flaw.path.as_str()), ("injection", path), "{step}");
    assert!(flaw.remedy.is_some(), "{flaw:?}");
}

/// The remedy fits the program, and what it says is accepted.
#[test]
fn the_remedy_is_one_for_the_program() {
    let x = "'{{ input.x }}'";
    for (refused, remedy, accepted) in [
        ("[sh, -c, 'echo {{ input.x }}']", "\"$DAY\"", "[sh, -c, 'echo \"$DAY\"']"),
        ("[tar, -czf, a.tgz, X]", "behind a literal --", "[tar, -czf, a.tgz, --, X]"),
        ("[nice, tar, -czf, a.tgz, X]", "\"./{{", "[nice, tar, -czf, a.tgz, './{{ input.x }}']"),
        ("[git, clone, X]", "behind a literal --", "[git, clone, --, X]"),
        ("[rsync, -a, X, host:b]", "behind a literal --", "[rsync, -a, --, X, 'host:b']"),
        ("[rsync, -e, X, a, b]", "a literal value of that option", "[rsync, -e, ssh, a, b]"),
        ("[git, X]", "a literal subcommand", "[git, log, --, './{{ input.x }}']"),
        ("[find, X, -name, a]", "[find, \"/srv/{{", "[find, '/srv/{{ input.x }}', -name, a]"),
        (
            "[psql, -c, 'select {{ input.x }}']",
            ":'x'",
            "[psql, -v, 'x={{ input.x }}', -f, job.sql]",
        ),
        ("[mysql, -e, 'select {{ input.x }}']", "[./query", "[./query, X]"),
        ("[sqlite3, a.db, 'select {{ input.x }}']", "[./query", "[./query, X]"),
        ("[sed, 's/a/{{ input.x }}/']", "[sed, -e", "[sed, -e, s/a/b/, --, './{{ input.x }}']"),
        ("[sed, 's/a/b/', X]", "stdin", "[sed, -e, s/a/b/], stdin: X"),
        ("[awk, '{print {{ input.x }}}']", "[awk, -v", "[awk, -v, 'x={{ input.x }}', '{print x}']"),
        ("[ssh, host, X]", "stdin", "[ssh, host, ./report], stdin: X"),
        ("[make, X]", "$$DAY", "[make, report], env: {DAY: X}"),
        ("[tmux, X]", "the variable", "[tmux, new], env: {DAY: X}"),
        ("[python3, X]", "[python3, job.py", "[python3, job.py, X]"),
        ("[perl, -e, print, X]", "[perl, -e", "[perl, -e, print, --, X]"),
        ("[X, a]", "[./report", "[./report, X]"),
        ("[timeout, '5', X]", "[./report", "[timeout, '5', ./report, X]"),
        ("[psql], stdin: X", ":'x'", "[psql, -v, 'x={{ input.x }}', -f, job.sql]"),
        ("[make], env: {PATH: X}", "a literal value", "[make], env: {DAY: X}"),
    ] {
        let flaws = refuse(&definition(&format!("command: {}", refused.replace('X', x))));
        let told = flaws[0].remedy.as_deref().unwrap_or_default();
        assert!(told.contains(remedy), "{refused}: {told}");
        accept(&definition(&format!("command: {}", accepted.replace('X', x))));
    }
}

/// Behind an option `--` may be its value. What follows may then be an option.
#[test]
fn a_literal_double_dash_that_may_be_a_value() {
    for (command, at) in [
        ("[tar, -cf, --, X, .]", 3),
        ("[tar, --file, --, X, .]", 3),
        ("[tar, -C, --, X, .]", 3),
        ("[git, clone, -b, --, X]", 4),
        ("[git, -C, --, X, status]", 3),
        ("[rsync, -e, --, X, a, b]", 3),
        ("[rsync, --exclude, --, X, a]", 3),
        ("[wget, -O, --, X]", 3),
        ("[sort, -o, --, X]", 3),
    ] {
        let command = format!("command: {}", command.replace('X', "'{{ input.x }}'"));
        check_refused(&command, &format!("steps[0].command[{at}]"));
    }
    for command in ["[tar, -xvf, a.tar, --, X]", "[rsync, -avz, --, X, b]", "[sort, --, X]"] {
        let command = command.replace('X', "'{{ input.x }}'");
        accept(&definition(&format!("command: {command}")));
    }
}

#[test]
fn a_template_in_the_program_of_a_shell() {
    let text = "steps[0].command";
    check_refused("shell: true, command: 'echo {{ input.x }}'", text);
    for (command, at) in [
        ("[sh, -c, 'echo {{ input.x }}']", 2),
        ("[/usr/bin/bash, -e, -lc, 'echo {{ input.x }}', x]", 3),
        ("[nice, sh, -ec, 'echo {{ input.x }}']", 3),
        ("[bash, -o, pipefail, -c, 'echo hi {{ input.x }}']", 4),
        ("[bash, -eo, pipefail, -c, 'echo hi {{ input.x }}']", 4),
        ("[bash, -O, extglob, -c, 'echo hi {{ input.x }}']", 4),
        ("[bash, --rcfile, /dev/null, -c, 'echo hi {{ input.x }}']", 4),
        ("[bash, --norc, -c, 'echo hi {{ input.x }}']", 3),
        ("[bash, -c, --, 'echo hi {{ input.x }}']", 3),
        ("[sh, +e, -c, 'echo hi {{ input.x }}']", 3),
        ("[sh, +o, posix, -c, 'echo hi {{ input.x }}']", 4),
        ("[rbash, -c, 'echo hi {{ input.x }}']", 2),
        ("[csh, -c, 'echo hi {{ input.x }}']", 2),
        ("[tcsh, -fc, 'echo hi {{ input.x }}']", 2),
        ("[ksh93, -c, 'echo hi {{ input.x }}']", 2),
        ("[fish, -c, 'echo hi {{ input.x }}']", 2),
        ("[fish, '--command=echo hi {{ input.x }}']", 1),
        ("[pwsh, -Command, 'echo hi {{ input.x }}']", 2),
        ("[pwsh, -NoProfile, -c, echo, '{{ input.x }}']", 4),
        ("[pwsh, -File, '{{ input.x }}']", 2),
        ("['C:\\Windows\\cmd.exe', /c, 'echo {{ input.x }}']", 2),
        ("[busybox, sh, -c, 'echo hi {{ input.x }}']", 3),
        ("[docker, exec, box, sh, -c, 'echo hi {{ input.x }}']", 5),
        ("[sh, -c, 'exec \"$@\"', sh, bash, -c, '{{ input.x }}']", 6),
    ] {
        check_refused(&format!("command: {command}"), &format!("{text}[{at}]"));
    }
}

#[test]
fn a_template_in_the_program_of_another_interpreter_or_of_what_starts_a_shell() {
    for (command, at) in [
        ("[python3, -c, 'print({{ input.x }})']", 2),
        ("[/usr/bin/python3.12, -W, ignore, -Ic, 'print({{ input.x }})']", 4),
        ("[python3, '-cprint({{ input.x }})']", 1),
        ("[perl, -e, 'print {{ input.x }}']", 2),
        ("[perl, -MList::Util, -lnE, 'print {{ input.x }}']", 3),
        ("[perl, -e, 'print', '{{ input.x }}']", 3),
        ("[ruby, -e, 'puts {{ input.x }}']", 2),
        ("[node, -e, 'f({{ input.x }})']", 2),
        ("[node, -p, 'f({{ input.x }})']", 2),
        ("[node, --eval, 'f({{ input.x }})']", 2),
        ("[node, '--eval=f({{ input.x }})']", 1),
        ("[deno, eval, 'f({{ input.x }})']", 2),
        ("[php, -r, 'f({{ input.x }});']", 2),
        ("[lua5.4, -e, 'f({{ input.x }})']", 2),
        ("[awk, '{print {{ input.x }}}']", 1),
        ("[gawk, -F, ':', '{print {{ input.x }}}', file]", 3),
        ("[sed, 's/a/{{ input.x }}/']", 1),
        ("[sed, -n, -e, 's/a/{{ input.x }}/', file]", 3),
        ("[sed, 's/a/b/', '{{ input.x }}']", 2),
        ("[sudo, -u, bob, python3, -c, 'f({{ input.x }})']", 5),
        ("[docker, exec, box, python3, -c, 'f({{ input.x }})']", 5),
        ("[env, -S, \"sh -c 'echo hi {{ input.x }}'\"]", 2),
        ("[env, \"-Ssh -c 'echo hi {{ input.x }}'\"]", 1),
        ("[env, '--split-string=sh -c {{ input.x }}']", 1),
        ("[env, -S, 'sh -c', '{{ input.x }}']", 3),
        ("[env, A=b, sh, -c, '{{ input.x }}']", 4),
        ("[env, '{{ input.x }}', sh, -c, 'echo hi']", 1),
        ("[script, -qec, 'echo {{ input.x }}', /dev/null]", 2),
        ("[su, bob, -c, 'echo {{ input.x }}']", 3),
        ("[flock, /tmp/lock, -c, 'echo {{ input.x }}']", 3),
        ("[watch, -n, '5', 'echo {{ input.x }}']", 3),
        ("[ssh, host, 'echo {{ input.x }}']", 2),
        ("[ssh, -p, '22', host, echo, '{{ input.x }}']", 5),
    ] {
        check_refused(&format!("command: {command}"), &format!("steps[0].command[{at}]"));
    }
}

#[test]
fn a_template_in_place_of_a_program_or_of_its_options() {
    for (command, at) in [
        ("['{{ input.program }}', x]", 0),
        ("[nice, '{{ input.program }}', '{{ input.x }}']", 1),
        ("[nice, -n, '10', '{{ input.program }}', '{{ input.x }}']", 3),
        ("[sh, '{{ input.f }}']", 1),
        ("[sh, '{{ input.f }}', '{{ input.x }}']", 1),
        ("[sh, 'jobs/{{ input.f }}.sh']", 1),
        ("[sh, '-{{ input.f }}', 'echo']", 1),
        ("[sh, -e, '{{ input.f }}', '{{ input.x }}']", 2),
        ("[bash, -o, '{{ input.f }}', -c, 'echo']", 2),
        ("[python3, '{{ input.f }}']", 1),
        ("[nice, python3, '{{ input.f }}']", 2),
        ("[node, --require, '{{ input.f }}', app.js]", 2),
        ("[awk, -f, '{{ input.f }}', data]", 2),
        ("[ssh, '{{ input.host }}', uptime]", 1),
        ("[su, '{{ input.user }}', -c, id]", 1),
    ] {
        check_refused(&format!("command: {command}"), &format!("steps[0].command[{at}]"));
    }
    for name in [
        "BASH_ENV",
        "GIT_SSH_COMMAND",
        "LD_LIBRARY_PATH",
        "NODE_OPTIONS",
        "PATH",
        "PERL5OPT",
        "PSQLRC",
        "SSH_ASKPASS",
        "LD_DEBUG_OUTPUT",
    ] {
        let step = format!("command: [make], env: {{{name}: '{{{{ input.x }}}}'}}");
        check_refused(&step, &format!("steps[0].env.{name}"));
    }
}

#[test]
fn a_template_in_the_options_of_a_program_that_starts_others() {
    for (command, at) in [
        ("[find, /srv, -exec, '{{ input.x }}', '{}', ';']", 3),
        ("[make, '{{ input.x }}']", 1),
        ("[make, 'report-{{ input.x }}']", 1),
        ("[bmake, all, 'DAY={{ input.x }}']", 2),
        ("[make, --, 'report-{{ input.x }}']", 2),
        ("[sqlite3, a.db, 'select {{ input.x }}']", 2),
        ("[psql, -c, 'select {{ input.x }}', db]", 2),
        ("[psql, '--command=select {{ input.x }}']", 1),
        ("[psql, -o, '{{ input.x }}', -f, a.sql]", 2),
        ("[mysql, -e, 'select {{ input.x }}', db]", 2),
        ("[/lib64/ld-linux-x86-64.so.2, /bin/sh, -c, 'echo {{ input.x }}']", 3),
        ("[make, -f, '{{ input.x }}', all]", 2),
        ("[git, -C, '{{ input.x }}', status]", 2),
        ("[npm, exec, '{{ input.x }}']", 2),
        ("[split, '--filter={{ input.x }}', f]", 1),
        ("[sort, --compress-program, '{{ input.x }}', f]", 2),
        ("[sqlite3, ':memory:', '{{ input.x }}']", 2),
        ("[find, /srv, -type, f, '{{ input.x }}']", 4),
        ("[find, '{{ input.x }}', -name, a]", 1),
        ("[find, /srv, -exec, sh, -c, 'rm {{ input.x }}', ';']", 5),
        ("[tar, -xf, a.tar, '--to-command={{ input.x }}']", 3),
        ("[tar, -xf, a.tar, --checkpoint=1, --checkpoint-action, 'exec={{ input.x }}']", 5),
        ("[tar, -I, '{{ input.x }}', -xf, a.tar]", 2),
        ("[tar, -czf, a.tgz, '{{ input.x }}']", 3),
        ("[rsync, -ave, '{{ input.x }}', a, b]", 2),
        ("[rsync, '--rsh={{ input.x }}', a, b]", 1),
        ("[rsync, -a, '{{ input.x }}', host:b]", 2),
        ("[scp, -o, 'ProxyCommand={{ input.x }}', a, host:b]", 2),
        ("[ssh, -o, 'ProxyCommand={{ input.x }}', host, id]", 2),
        ("[ssh, '-oProxyCommand={{ input.x }}', host, id]", 1),
        ("[git, -c, '{{ input.x }}', status]", 2),
        ("[git, '{{ input.x }}']", 1),
        ("[git, clone, '{{ input.x }}']", 2),
        ("[git, clone, '--upload-pack={{ input.x }}', a]", 2),
        ("[vim, -c, '{{ input.x }}', file]", 2),
        ("[vim, '+{{ input.x }}', file]", 1),
        ("[emacs, --batch, --eval, '{{ input.x }}']", 3),
        ("[gdb, -ex, '{{ input.x }}', program]", 2),
        ("[nice, gdb, --batch, -ex, '{{ input.x }}', program]", 4),
        ("[xargs, '{{ input.x }}']", 1),
        ("[env, A=b, '{{ input.x }}']", 2),
        ("[sudo, '{{ input.x }}']", 1),
        ("[sudo, -u, bob, '{{ input.x }}']", 3),
        ("[timeout, '5', '{{ input.x }}']", 2),
        ("[timeout, -s, KILL, '5', '{{ input.x }}']", 4),
        ("[chroot, /srv/box, '{{ input.x }}']", 2),
        ("[gosu, bob, '{{ input.x }}']", 2),
        ("[npx, '{{ input.x }}']", 1),
    ] {
        check_refused(&format!("command: {command}"), &format!("steps[0].command[{at}]"));
    }
}

#[test]
fn a_template_at_or_before_the_program_that_a_subcommand_starts() {
    for (command, at) in [
        ("[npm, exec, --yes, --offline, --, '{{ input.x }}']", 5),
        ("[npm, x, --, '{{ input.x }}']", 3),
        ("[npm, exec, --package, '{{ input.x }}', --, prettier]", 3),
        ("[npm, exec, --, env, '{{ input.x }}']", 4),
        ("[npx, -p, '{{ input.x }}', prettier]", 2),
        ("[uvx, --from, '{{ input.x }}', ruff]", 2),
        ("[uvx, '{{ input.x }}']", 1),
        ("[pipx, run, '{{ input.x }}']", 2),
        ("[uv, run, '{{ input.x }}']", 2),
        ("[uv, run, python, '{{ input.x }}']", 3),
        ("[uv, run, docker, exec, box, find, /srv, '{{ input.x }}']", 7),
        ("[nice, poetry, run, '{{ input.x }}']", 3),
        ("[bundle, exec, '{{ input.x }}']", 2),
        ("[conda, run, -n, jobs, '{{ input.x }}']", 4),
        ("[direnv, exec, ., '{{ input.x }}']", 3),
        ("[go, run, '{{ input.x }}']", 2),
        ("[docker, run, --rm, alpine, '{{ input.x }}']", 4),
        ("[docker, run, '{{ input.x }}']", 2),
        ("[docker, run, --entrypoint, '{{ input.x }}', alpine]", 3),
        ("[docker, run, --entrypoint, sh, alpine, -c, '{{ input.x }}']", 6),
        ("[podman, exec, -it, box, '{{ input.x }}']", 4),
        ("[docker, compose, exec, -T, web, '{{ input.x }}']", 5),
        ("[kubectl, exec, pod, --, '{{ input.x }}']", 4),
        ("[lxc, exec, c, --, '{{ input.x }}']", 4),
        ("[ip, netns, exec, x, '{{ input.x }}']", 4),
        ("[pkexec, '{{ input.x }}']", 1),
        ("[unlisted, exec, '{{ input.x }}']", 2),
    ] {
        check_refused(&format!("command: {command}"), &format!("steps[0].command[{at}]"));
    }
    for step in [
        "command: [docker, run, --rm, -e, 'DAY={{ input.x }}', jobs, report, '{{ input.x }}']",
        "command: [docker, run, --rm, --entrypoint, /report, jobs, '{{ input.x }}']",
        "command: [docker, exec, -it, box, report, '{{ input.x }}']",
        "command: [kubectl, exec, -n, jobs, pod, --, report, '{{ input.x }}']",
        "command: [npm, exec, --yes, --, prettier, '{{ input.x }}']",
        "command: [npx, --yes, prettier, '{{ input.x }}']",
        "command: [uv, run, python, job.py, '{{ input.x }}']",
        "command: [go, run, main.go, '{{ input.x }}']",
        "command: [./report, exec, '{{ input.x }}']",
        "command: [report, run, '{{ input.x }}']",
        "command: [docker, pull, 'jobs:{{ input.x }}']",
    ] {
        accept(&definition(step));
    }
}

#[test]
fn a_template_in_the_options_and_texts_of_other_programs() {
    for (command, at) in [
        ("[tmux, -L, s, new-session, -d, '{{ input.x }}']", 5),
        ("[wget, '{{ input.x }}', 'http://example.org']", 1),
        ("[wget, '--use-askpass={{ input.x }}']", 1),
        ("[zip, a.zip, f, -T, '{{ input.x }}']", 4),
        ("[zip, a.zip, f, -T, '-TT{{ input.x }}']", 4),
        ("[nix-shell, --run, '{{ input.x }}']", 2),
        ("[java, -jar, '{{ input.x }}']", 2),
        ("[ansible, all, -a, '{{ input.x }}']", 3),
        ("[rake, '{{ input.x }}']", 1),
        ("[just, '{{ input.x }}']", 1),
        ("[cmake, -P, '{{ input.x }}']", 2),
        ("[gradle, '{{ input.x }}']", 1),
        ("[hg, '{{ input.x }}']", 1),
        ("[erl, -noshell, -eval, '{{ input.x }}']", 3),
        ("[sbcl, --eval, '{{ input.x }}']", 2),
        ("[jshell, '{{ input.x }}']", 1),
        ("[dc, -e, '{{ input.x }}']", 2),
        ("[mongosh, --eval, '{{ input.x }}']", 2),
        ("[duckdb, a.db, -c, '{{ input.x }}']", 3),
        ("[clickhouse-client, --query, '{{ input.x }}']", 2),
        ("[sqlcmd, -Q, '{{ input.x }}']", 2),
        ("[cqlsh, -e, '{{ input.x }}']", 2),
        ("[redis-cli, EVAL, '{{ input.x }}', '0']", 2),
        ("[nc, -e, '{{ input.x }}', host, '1']", 2),
        ("[socat, '-', '{{ input.x }}']", 2),
        ("[tcpdump, -z, '{{ input.x }}']", 2),
        ("[man, -P, '{{ input.x }}', ls]", 2),
        ("[sort, '--compress-prog={{ input.x }}', f]", 1),
        ("[split, '--fil={{ input.x }}', f]", 1),
        ("[split, --fil, '{{ input.x }}', f]", 2),
        ("[sed, '--expr={{ input.x }}', f]", 1),
    ] {
        check_refused(&format!("command: {command}"), &format!("steps[0].command[{at}]"));
    }
    for step in [
        "command: [java, '-Dday={{ input.x }}', -jar, app.jar, '{{ input.x }}']",
        "command: [java, -version]",
        "command: [wget, -O, '{{ input.x }}', --, '{{ input.y }}']",
        "command: [wget, 'http://example.org/{{ input.x }}']",
        "command: [zip, a.zip, 'data/{{ input.x }}']",
        "command: [redis-cli, SET, day, '{{ input.x }}']",
        "command: [gradle, report, '-Pday={{ input.x }}']",
        "command: [hg, commit, -m, '{{ input.x }}']",
        "command: [erl, -version]",
        "command: [cat], env: {REPORT_OPTIONS: '{{ input.x }}'}",
    ] {
        accept(&definition(step));
    }
}

#[test]
fn a_template_in_the_folder_of_a_program_that_is_looked_for_there() {
    for command in [
        "[./run.sh]",
        "[bin/run]",
        "[nice, ./run.sh]",
        "[sh, run.sh]",
        "[python3, job.py]",
        "[python3, -m, job]",
        "[node, app.js]",
        "[make]",
        "[npm, run, x]",
        "[git, status]",
        "[docker, compose, up]",
        "[sh, -c, './run.sh']",
    ] {
        let step = format!("command: {command}, cwd: '/srv/{{{{ input.x }}}}'");
        check_refused(&step, "steps[0].cwd");
    }
    check_refused("shell: true, command: 'ls; ./run.sh', cwd: '{{ input.x }}'", "steps[0].cwd");
    for step in [
        "command: [./run.sh], cwd: /srv/app",
        "command: [make], cwd: /srv/app",
        "command: [/srv/app/run.sh], cwd: '/data/{{ input.x }}'",
        "command: [ls, -l], cwd: '/data/{{ input.x }}'",
        "command: [sh, /srv/app/run.sh], cwd: '/data/{{ input.x }}'",
        "command: [nice, python3, /srv/app/job.py], cwd: '/data/{{ input.x }}'",
        "shell: true, command: 'ls | wc -l', cwd: '/data/{{ input.x }}'",
    ] {
        accept(&definition(step));
    }
}

#[test]
fn one_mistake_is_told_once() {
    for (step, code) in [
        ("command: [ls], env: {'{{ input.n }}': x}", "env"),
        ("shell: true, command: ['echo {{ input.x }}']", "command"),
        ("command: 'echo {{ input.x }}'", "command"),
    ] {
        let flaws = refuse(&definition(step));
        let codes: Vec<_> = flaws.iter().map(|flaw| flaw.code).collect();
        assert_eq!(codes, [code], "{step}: {flaws:?}");
    }
}

/// perl's `<>` takes the operand `cmd|` for a command, also behind `--`.
#[test]
fn a_template_that_perl_would_open() {
    for (command, at) in [
        ("[perl, -ne, print, --, X]", 4),
        ("[perl, -i.bak, -pe, 's/a/b/', '/srv/{{ input.x }}']", 4),
        ("[perl, -e, 'while (<>) {print}', --, X]", 4),
    ] {
        let command = format!("command: {}", command.replace('X', "'{{ input.x }}'"));
        check_refused(&command, &format!("steps[0].command[{at}]"));
    }
    accept(&definition("command: [perl, -e, 'print while <<>>', --, '{{ input.x }}']"));
}

#[test]
fn a_template_in_a_variable_that_chooses_what_runs() {
    for name in ["PATH", "BASH_ENV", "PS4", "LD_PRELOAD", "HGEDITOR", "RUSTC_WRAPPER"] {
        let value = "'{{ input.x }}'";
        let step = format!("command: [bash, -x, job.sh], env: {{{name}: {value}}}");
        check_refused(&step, &format!("steps[0].env.{name}"));
        let step = format!("command: [nice, env, '{name}={{{{ input.x }}}}', bash, job.sh]");
        check_refused(&step, "steps[0].command[2]");
    }
}

#[test]
fn a_program_that_is_read_from_stdin() {
    for command in [
        "[sh]",
        "[bash, -s]",
        "[bash, -s, --, '{{ input.x }}']",
        "[sh, '-']",
        "[sh, /dev/stdin, x]",
        "[bash, -o, pipefail]",
        "[nice, -n, '10', sh]",
        "[docker, exec, -i, box, sh]",
        "[pwsh]",
        "[python3]",
        "[python3, '-']",
        "[perl, -w]",
        "[php]",
        "[awk, -f, '-', data]",
        "[ssh, host]",
        "[su, bob]",
        "[at, now]",
        "[xargs, sh]",
        "[sh, -c, sh]",
        "[sh, -c, 'cd /tmp && exec bash -s']",
        "[ssh, host, sh]",
        "[ssh, -p, '22', host, cd, /tmp, '&&', bash]",
        "[unshare, -r]",
        "[chroot, /srv/root]",
        "[sudo, -s]",
        "[sudo, -u, bob, -i]",
        "[doas, -s]",
        "[nsenter, -t, '1', -m]",
        "[make, -f, '-']",
        "[make, -f-]",
        "[make, --file=-]",
        "[crontab, '-']",
        "[gdb]",
        "[psql, reports]",
        "[sqlite3, a.db]",
        "[mysql, reports]",
        "[xargs, '-I{}', sh, -c, 'echo {}']",
    ] {
        let step = format!("command: {command}, stdin: 'echo hi {{{{ input.x }}}}'");
        check_refused(&step, "steps[0].stdin");
        accept(&definition(&format!("command: {command}, stdin: 'echo hi'")));
    }
    // Without a `stdin` of its own a command reads the input of the run.
    for command in [
        "[sh]",
        "[nice, bash, -s]",
        "[perl]",
        "[uv, run, python]",
        "[direnv, exec, ., sh]",
        "[sudo, -s]",
        "[psql, db]",
        "[sudo, -u, bob, bash]",
        "[flock, /tmp/lock, sh]",
        "[choom, -n, '0', sh]",
        "[setarch, x86_64, sh]",
        "[docker, run, -i, alpine, sh]",
        "[docker, compose, exec, web, sh]",
        "[kubectl, exec, -i, pod, --, sh]",
    ] {
        check_refused(&format!("command: {command}"), "steps[0].command[0]");
    }
    for command in ["[docker, run, alpine, sh]", "[flock, /tmp/lock, ls, sh]"] {
        accept(&definition(&format!("command: {command}")));
    }
    // In the text of a shell too, where the command comes first and nothing else is its input.
    for command in ["sh", "exec bash -s", "cd /tmp && LANG=C sh -", "(python3 -)", "true; perl"] {
        let step = format!("shell: true, command: '{command}'");
        check_refused(&format!("{step}, stdin: '{{{{ input.x }}}}'"), "steps[0].stdin");
        check_refused(&step, "steps[0].command");
        accept(&definition(&format!("{step}, stdin: 'echo hi'")));
    }
    let box_step = "shell: true, command: 'docker exec -i box sh', stdin: '{{ input.x }}'";
    check_refused(box_step, "steps[0].stdin");
    for command in ["echo id | sh", "sh < job.sh", "sh job.sh", "cat > sh", "grep bash || true"] {
        accept(&definition(&format!(
            "shell: true, command: '{command}', stdin: '{{{{ input.x }}}}'"
        )));
    }
    for step in [
        "command: [bash, --version]",
        "command: [python3, -V]",
        "command: [apt-get, install, bash]",
        "command: [sudo, apt-get, install, bash]",
    ] {
        accept(&definition(step));
    }
}

#[test]
fn templates_that_stay_arguments_and_data() {
    for step in [
        "shell: true, command: 'echo $NAME', env: {NAME: '{{ input.x }}'}",
        "shell: true, command: cat, stdin: '{{ input.x }}'",
        "command: [sh, -c, 'echo \"$1\"', sh, '{{ input.x }}']",
        "command: [sh, -c, 'echo \"$1\"', '{{ input.x }}']",
        "command: [bash, -euo, pipefail, -c, 'echo \"$1\"', bash, '{{ input.x }}']",
        "command: [sh, -c, cat], stdin: '{{ input.x }}'",
        "command: [sh, script.sh, '{{ input.x }}'], stdin: '{{ input.x }}'",
        "command: [bash, -x, --, script.sh, '{{ input.x }}']",
        "command: [pwsh, -NoProfile, -File, script.ps1, '{{ input.x }}']",
        "command: [python3, -c, 'import sys', '{{ input.x }}']",
        "command: [python3, -u, job.py, '{{ input.x }}'], stdin: '{{ input.x }}'",
        "command: [python3, -m, pip, install, '{{ input.x }}']",
        "command: [perl, -e, 'print @ARGV', --, '{{ input.x }}']",
        "command: [node, --enable-source-maps, app.js, '{{ input.x }}']",
        "command: [deno, run, app.ts, '{{ input.x }}']",
        "command: [awk, -v, 'x={{ input.x }}', '{print x}']",
        "command: [awk, '-vx={{ input.x }}', '{print x}', '{{ input.file }}']",
        "command: [sed, -n, '1p', --, '{{ input.x }}']",
        "command: [sed, '1p', 'data/{{ input.x }}'], stdin: '{{ input.x }}'",
        "command: [env, 'DAY={{ input.x }}', sh, -c, 'echo $DAY']",
        "command: [timeout, '{{ input.x }}', make, all]",
        "command: [runuser, -u, bob, --, ls, '{{ input.x }}']",
        "command: [flock, /tmp/lock, ls, '{{ input.x }}']",
        "command: [ssh, 'deploy@{{ input.x }}', uptime], stdin: '{{ input.x }}'",
        "command: [kubectl, delete, node, '{{ input.x }}']",
        "command: [npm, run, watch, '{{ input.x }}']",
        "command: [echo, -c, '{{ input.x }}'], stdin: '{{ input.x }}'",
        "command: [psql, -v, 'x={{ input.x }}', -f, query.sql]",
        "command: [cat], env: {X: '{{ input.x }}'}",
        "command: [curl, 'https://x/{{ input.id }}']",
        "command: [./report.sh, '{{ input.x }}']",
        "command: [find, /srv, -name, '{{ input.x }}', -delete]",
        "command: [make, -j, '{{ input.x }}', all]",
        "command: [psql, -h, '{{ input.x }}', -v, 'day={{ input.x }}', -f, day.sql, reports]",
        "command: [psql, -l]",
        "command: [sqlite3, '/srv/{{ input.x }}.db', .dump]",
        "command: [crontab, -l]",
        "command: [sudo, -l]",
        "command: [gdb, -batch, -ex, bt, -p, '{{ input.x }}']",
        "command: [ssh, host, uptime]",
        "command: [sh, -c, uptime]",
        "command: [sort, -o, '{{ input.x }}', f]",
        "command: [sqlite3, '/srv/{{ input.x }}.db', vacuum]",
        "command: [find, '/srv/{{ input.x }}', -type, f]",
        "command: [find, /srv, -exec, grep, -l, 'id={{ input.x }}', '{}', ';']",
        "command: [tar, -czf, '{{ input.x }}.tgz', -C, '{{ input.y }}', data]",
        "command: [tar, -czf, a.tgz, --, '{{ input.x }}']",
        "command: [rsync, -a, data/, 'host:/srv/{{ input.x }}']",
        "command: [git, commit, -m, '{{ input.x }}']",
        "command: [git, checkout, '{{ input.x }}']",
        "command: [git, clone, --, '{{ input.x }}']",
        "command: [sudo, -u, bob, ls, '{{ input.x }}']",
        "command: [timeout, -s, KILL, '5', ./report.sh, '{{ input.x }}']",
        "command: [npx, prettier, '{{ input.x }}']",
    ] {
        accept(&definition(step));
    }
}
