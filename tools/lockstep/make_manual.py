#!/usr/bin/env python3
"""The man page and the completion of the program: make_manual.py PROGRAM lockstep.1 lockstep.bash

Both are made from what PROGRAM --help and PROGRAM COMMAND --help print, so they say what it says.
"""
import re
import subprocess
import sys

OPTION = re.compile(r"  --(?P<name>[a-z0-9-]+)(?P<value>(?: \S+)*?)(?:  +(?P<text>\S.*))?$")


def ask(program, *words):
    return subprocess.run([program, *words], check=True, stdout=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, text=True).stdout


class Command:
    """A command's help, taken apart."""

    def __init__(self, name, summary, text):
        self.name, self.summary = name, summary
        lines = text.splitlines()
        self.usage = next(line[len("usage: "):] for line in lines if line.startswith("usage: "))
        self.parts, self.examples, self.chapters = [], [], ""
        for line in lines:
            option = OPTION.match(line)
            if line.startswith("Chapters of"):
                self.chapters = line
            elif re.match(r"\S.*:$", line):
                self.parts.append((line[:-1], []))
            elif line.startswith("  lockstep ") and self.parts:
                self.examples.append(line.strip())
            elif option:
                if not self.parts:
                    self.parts.append(("Options", []))
                self.parts[-1][1].append(option.groupdict())
            elif line.startswith(" " * 30) and self.parts and self.parts[-1][1]:
                last = self.parts[-1][1][-1]
                last["text"] = f"{last['text'] or ''} {line.strip()}".strip()

    def options(self):
        return [option for _, options in self.parts for option in options]


def commands_of(program):
    found = []
    for name, summary in re.findall(r"^  ([a-z]+)  +(.*)$", ask(program, "--help"), re.MULTILINE):
        text = ask(program, name, "--help")
        command = Command(name, summary, text)
        # What only the other kind of model has.
        other = re.search(rf"^lockstep {name} (--model \S+) --help$", text, re.MULTILINE)
        if other:
            known = {option["name"] for option in command.options()}
            for part, options in Command(name, summary,
                                         ask(program, name, *other[1].split(), "--help")).parts:
                new = [option for option in options if option["name"] not in known]
                if new:
                    command.parts.append((f"{part} ({other[1]})", new))
        found.append(command)
    return found


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def manual(program, commands):
    general = ask(program, "--help")
    version = ask(program, "--version").split(",")[0]
    summary = general.splitlines()[0].split(" - ")[1]
    out = [f'.TH LOCKSTEP 1 "" "{version}" "Lockstep"', ".SH NAME", f"lockstep \\- {roff(summary)}",
           ".SH SYNOPSIS", ".B lockstep", "COMMAND [\\-\\-option value ...]", ".SH COMMANDS"]
    for command in commands:
        out += [".TP", f".B {command.name}", roff(command.summary)]
    for command in commands:
        out += [f".SH LOCKSTEP {command.name.upper()}", f".B {roff(command.usage)}", ".PP",
                f"{roff(command.summary[0].upper() + command.summary[1:])}.",
                roff(command.chapters)]
        for heading, options in command.parts:
            if options:
                out.append(f".SS {roff(heading)}")
            for option in options:
                out += [".TP", f".BR \\-\\-{roff(option['name'])}" +
                        (f' "{roff(option["value"])}"' if option["value"] else ""),
                        roff(option["text"] or "")]
        out += [".SS Examples", ".nf"] + [roff(line) for line in command.examples] + [".fi"]
    status = next(line for line in general.splitlines() if line.startswith("Exit status: "))
    out += [".SH EXIT STATUS", roff(status[len("Exit status: "):])]
    return "\n".join(out) + "\n"


def completion(commands):
    lines = ["# bash completion of lockstep", "_lockstep()", "{",
             '    local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD - 1]} words=',
             "    if [ \"$COMP_CWORD\" = 1 ]; then",
             f"        words='{' '.join(c.name for c in commands)} help --help --version'",
             "    else", "        case ${COMP_WORDS[1]}:$last in"]
    for command in commands:
        for option in command.options():
            value = option["value"].strip()
            if re.fullmatch(r"[a-z0-9_-]+(\|[a-z0-9_-]+)+", value):
                lines.append(f"        {command.name}:--{option['name']}) "
                             f"words='{value.replace('|', ' ')}' ;;")
            elif value.startswith("NAME|"):  # names come first in its text
                known = re.match(r"(?:[a-z0-9-]+, )*", option["text"] or "")[0]
                lines.append(f"        {command.name}:--{option['name']}) "
                             f"words='{known.replace(',', '').strip()}' ;;")
            elif value:  # a number or a file: the shell's own completion of files
                lines.append(f"        {command.name}:--{option['name']}) ;;")
    for command in commands:
        names = " ".join("--" + option["name"] for option in command.options())
        lines.append(f"        {command.name}:*) words='{names}' ;;")
    lines += ["        help:*) words='" + " ".join(c.name for c in commands) + "' ;;",
              "        esac", "    fi", '    COMPREPLY=($(compgen -W "$words" -- "$word"))', "}",
              "complete -o default -F _lockstep lockstep"]
    return "\n".join(lines) + "\n"


def main():
    program, manual_path, completion_path = sys.argv[1:]
    commands = commands_of(program)
    for path, text in ((manual_path, manual(program, commands)),
                       (completion_path, completion(commands))):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
