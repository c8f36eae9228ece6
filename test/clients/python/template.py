"""Templates are built with their logs, files, tags and other sizes, and fail with the step that failed."""

import os
import tempfile

from e2b import BuildException, ConnectionConfig, Sandbox, Template, wait_for_port
from e2b.api.client.api.tags import get_templates_template_id_tags_count as tags_count
from e2b.api.client.api.tags import get_templates_template_id_tags_exists as tags_exists
from e2b.api.client.api.tags import get_templates_template_id_tags_groups as tags_groups
from e2b.api.client.api.tags import get_templates_template_id_tags_tag_assignments as tag_assignments
from e2b.api.client.models import GetTemplatesTemplateIDTagsGroupsSort as Sort
from e2b.api.client_sync import get_api_client

messages = []


def build(template, name, **options):
    return Template.build(template, name, on_build_logs=lambda entry: messages.append(entry.message), **options)


with tempfile.TemporaryDirectory() as context:
    os.mkdir(os.path.join(context, "app"))
    with open(os.path.join(context, "app", "index.html"), "w") as page:
        page.write("a page\n")
    server = (
        Template(file_context_path=context)
        .from_image("python")
        .copy("app", "copied")
        .run_cmd("cat copied/index.html")
        .copy("app", "/srv/app")
        .set_envs({"GREETING": "hello"})
        .run_cmd('echo "$GREETING" >/srv/greeting')
        .set_workdir("/srv/app")
        .set_start_cmd("python3 -m http.server 8000", wait_for_port(8000))
    )
    built = build(server, "python-server:v1")
assert built.build_id and built.template_id == "python-server", built
assert any("GREETING" in message for message in messages), messages
assert Template.exists("python-server") and not Template.exists("python-none")
assert "v1" in [tag.tag for tag in Template.get_tags("python-server")]
Template.assign_tags("python-server:v1", ["stable"])

# What the generated client of the same package has of tags.
api = get_api_client(ConnectionConfig())
assert tags_count.sync("python-server", client=api).total == 3
groups = tags_groups.sync("python-server", client=api, search="st", sort=Sort.NAME_ASC).tags
assert [group.tag for group in groups] == ["stable"], groups
first = tags_groups.sync("python-server", client=api, tags_limit=1)
second = tags_groups.sync("python-server", client=api, tags_limit=2, tags_cursor=first.next_cursor)
assert len({group.tag for group in first.tags + second.tags}) == 3 and second.next_cursor is None, (first, second)
assert tags_exists.sync("python-server", tag="Stable", client=api).normalized_tag == "stable"
assert tags_exists.sync("python-server", tag="none", client=api).exists is False
assigned = tag_assignments.sync("python-server", "stable", client=api).data
assert [str(each.build_id) for each in assigned] == [built.build_id], assigned

sandbox = Sandbox.create("python-server:stable")
assert "Linux" in sandbox.files.read("/proc/version")
read = "python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000/').read())\""
assert "a page" in sandbox.commands.run(read).stdout
assert sandbox.files.read("/srv/greeting") == "hello\n"
sandbox.kill()
Template.remove_tags("python-server", ["stable"])
assert "stable" not in [tag.tag for tag in Template.get_tags("python-server")]

# Another template, with its default sizes and with others.
build(Template().from_template("python").run_cmd("echo built >/built"), "python-derived")
build(Template().from_template("python").run_cmd("echo built >/built"), "python_sized", cpu_count=1, memory_mb=512)
sized = Sandbox.create("python_sized")
assert sized.files.read("/built") == "built\n"
info = sized.get_info()
assert Template.exists("python_sized") and info.template_id == "python_sized", info
assert (info.cpu_count, info.memory_mb) == (1, 512), info
sized.kill()

try:
    build(Template().from_image("python").run_cmd("true").run_cmd("echo broken; exit 3"), "python-failing")
    raise AssertionError("a template with a command that fails was built")
except BuildException as error:
    assert "exit code 3" in str(error), error
