"""Code in contexts, results, errors and charts."""

from e2b import TimeoutException
from e2b_code_interpreter import AsyncSandbox, Sandbox
from e2b_code_interpreter.charts import BarChart, BoxAndWhiskerChart, LineChart, PieChart, ScatterChart, SuperChart

import ended

sandbox = Sandbox.create(envs={"GREETING": "hello"})


def test_output():
    lines = []
    execution = sandbox.run_code("print('a'); 1 + 1", on_stdout=lambda line: lines.append(line.line))
    assert (execution.text, execution.logs.stdout, lines) == ("2", ["a\n"], ["a\n"]), execution
    assert sandbox.run_code("import os; os.getcwd()").text == "/home/user"
    assert sandbox.run_code("os.environ['GREETING']").text == "hello"
    assert sandbox.run_code("os.environ['GREETING']", envs={"GREETING": "bye"}).text == "bye"
    assert sandbox.run_code("os.environ['GREETING']").text == "hello"
    error = sandbox.run_code("1 / 0").error
    assert (error.name, error.value) == ("ZeroDivisionError", "division by zero"), error
    assert "1 / 0" in error.traceback, error


def test_contexts():
    context = sandbox.create_code_context(cwd="/tmp")
    assert (context.language, context.cwd) == ("python", "/tmp")
    sandbox.run_code("x = 1", context=context)
    assert sandbox.run_code("import os; x, os.getcwd()", context=context).text == "(1, '/tmp')"
    assert sandbox.run_code("x").error.name == "NameError"
    sandbox.restart_code_context(context)
    assert sandbox.run_code("x", context=context).error.value == "name 'x' is not defined"
    assert context.id in [each.id for each in sandbox.list_code_contexts()]
    sandbox.remove_code_context(context)
    assert context.id not in [each.id for each in sandbox.list_code_contexts()]
    sandbox.run_code("cd /tmp; x=2", language="bash")
    assert sandbox.run_code("echo $x $PWD $Y", language="bash", envs={"Y": "a b"}).logs.stdout == ["2 /tmp a b\n"]
    assert sandbox.run_code("echo [$Y]", language="bash").logs.stdout == ["[]\n"]


def test_interrupt():
    try:
        sandbox.run_code("import time; time.sleep(300)", timeout=2)
        raise AssertionError("it did not time out")
    except TimeoutException:
        pass
    assert sandbox.run_code("'still here'", timeout=60).text == "still here"
    assert sandbox.run_code("os._exit(1)").error.name == "ContextRestarting"
    assert sandbox.run_code("1").text == "1"


def test_formats():
    execution = sandbox.run_code("import pandas; pandas.DataFrame({'a': [1, 2]})")
    assert execution.results[0].data == {"a": [1, 2]} and "<table" in execution.results[0].html
    assert sandbox.run_code("{'a': [1]}").results[0].json == {"a": [1]}
    latex = "from IPython.display import display\ndisplay({'text/latex': '$a$', 'x/y': 'z'}, raw=True)"
    result = sandbox.run_code(latex).results[0]
    assert (result.latex, result.extra, result.is_main_result) == ("$a$", {"x/y": "z"}, False), result
    image = "from PIL import Image\nImage.new('RGB', (2, 2))"
    assert sandbox.run_code(image).results[0].png


def chart_of(code):
    execution = sandbox.run_code(f"import matplotlib.pyplot as plt\n{code}\nplt.show()")
    assert execution.error is None and execution.results[0].png, execution
    return execution.results[0].chart


def test_charts():
    line = chart_of("plt.plot([1, 2], [3, 4], label='a'); plt.plot([1, 2], [4, 6]); plt.xlabel('Time (s)'); plt.title('T')")
    assert isinstance(line, LineChart) and (line.title, line.x_label, line.x_unit) == ("T", "Time (s)", "s")
    assert [(each.label, each.points) for each in line.elements] == [
        ("a", [(1, 3), (2, 4)]),
        ("Line 1", [(1, 4), (2, 6)]),
    ]
    dates = chart_of("import datetime as d\nplt.plot([d.date(2024, 1, n) for n in (1, 2, 3)], [1, 2, 3])")
    assert dates.x_scale.value == "datetime" and dates.elements[0].points[0] == ("2024-01-01", 1)
    scatter = chart_of("plt.scatter([1, 2], [3, 4], label='s'); plt.yscale('log')")
    assert isinstance(scatter, ScatterChart) and scatter.y_scale.value == "log"
    assert scatter.elements[0].points == [(1, 3), (2, 4)]
    for bars in ("plt.bar(['x', 'y'], [1, 2], label='g'); plt.xlabel('L')", "plt.barh(['x', 'y'], [1, 2], label='g'); plt.ylabel('L')"):
        bar = chart_of(bars)
        assert isinstance(bar, BarChart) and bar.x_label == "L"
        assert [(each.label, each.group, each.value) for each in bar.elements] == [("x", "g", 1), ("y", "g", 2)]
    pie = chart_of("plt.pie([1, 3], labels=['p', 'q'])")
    assert isinstance(pie, PieChart) and [(each.label, each.angle) for each in pie.elements] == [("p", 90), ("q", 270)]
    for more in ("", ", orientation='horizontal'"):
        box = chart_of(f"plt.boxplot([[1, 2, 3, 4, 20], [2, 4, 6, 8]], tick_labels=['m', 'n'], patch_artist=True{more})")
        assert isinstance(box, BoxAndWhiskerChart)
        first, second = box.elements
        assert (first.label, first.min, first.first_quartile, first.median) == ("m", 1, 2, 3), vars(first)
        assert (first.third_quartile, first.max, first.outliers) == (4, 4, [20]), vars(first)
        assert (second.label, second.median, second.max, second.outliers) == ("n", 5, 8, []), vars(second)
    both = chart_of("f, (a, b) = plt.subplots(1, 2); f.suptitle('S'); a.plot([1, 2]); b.bar(['x'], [1])")
    assert isinstance(both, SuperChart) and both.title == "S"
    assert [each.type.value for each in both.elements] == ["line", "bar"]


async def test_async():
    other = await AsyncSandbox.connect(sandbox.sandbox_id)
    assert (await other.run_code("1 + 2")).text == "3"


for test in (test_output, test_contexts, test_interrupt, test_formats, test_charts):
    test()
ended.run(test_async())
sandbox.kill()
