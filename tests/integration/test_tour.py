"""docs/api.md: what it shows is what happens."""

import os
import re
import subprocess

import host

TOUR = host.ROOT / "docs" / "api.md"


def steps():
    """(command, expected lines), in the order of the page."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", TOUR.read_text(), re.M | re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append([line[2:], []])
            elif line.startswith("> "):
                found[-1][0] += "\n" + line[2:]
            else:
                found[-1][1].append(line)
    return found


def pattern(lines):
    """A regular expression for the output: "..." is anything, an age any age, a blank any blanks."""
    parts = []
    for line in lines:
        if line == "...":
            parts.append(r"(?:.*\n)*?")
            continue
        text = re.escape(re.sub(r"\s+", " ", line.rstrip()))
        text = text.replace(re.escape("..."), ".*").replace(re.escape(" "), r"[ \t]+")
        parts.append(re.sub(r"\b\d+s\b", r"(?:\\d+m)?\\d+s", text) + r"[ \t]*\n")
    return "".join(parts)


class Shell:
    """One bash for the whole tour, which remembers variables and directories."""

    END = "--- end of the step ---"

    def __init__(self, directory, environment):
        self.process = subprocess.Popen(
            ["bash", "--norc"], cwd=directory, env={**os.environ, **environment}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, command):
        self.process.stdin.write(f"{command}\necho; echo '{self.END}'\n")
        self.process.stdin.flush()
        output = ""
        for line in self.process.stdout:
            if line.strip() == self.END:
                # The blank line is ours: not every output ends with a newline.
                output = output.removesuffix("\n")
                return output if output.endswith("\n") or not output else output + "\n"
            output += line
        raise AssertionError(f"the shell ended after: {output}")

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


def test_the_tour_shows_what_happens(daemon, tmp_path):
    shell = Shell(tmp_path, {"HOME": str(tmp_path)})
    places = {"/run/virtset/virtset.sock": daemon.directory / "virtset.sock",
              "/etc/virtset/kubeconfig": daemon.directory / "kubeconfig"}
    found = steps()
    assert len(found) > 40, "the page has been taken apart wrongly"
    for command, lines in found:
        for place, here in places.items():
            command = command.replace(place, str(here))
        output = shell.run(command)
        assert re.fullmatch(pattern(lines), output), (
            f"$ {command}\nprinted\n{output}\nand the page says\n" + "\n".join(lines))
    shell.close()
