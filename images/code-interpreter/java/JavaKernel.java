import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Collectors;
import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.JShell;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis.CompletionInfo;

/**
 * Runs Java for java_kernel.py, with the JShell of the same process. Reads a request from each line of its input: code and
 * variables. Answers with lines until `done`: a kind and texts. Texts are in Base64.
 */
public final class JavaKernel {
    private static final List<String> IMPORTS = List.of("java.io.*", "java.math.*", "java.net.*", "java.nio.file.*",
        "java.util.*", "java.util.concurrent.*", "java.util.function.*", "java.util.regex.*", "java.util.stream.*");
    private static final OutputStream answers = new FileOutputStream(FileDescriptor.out);
    private static volatile boolean interrupted;

    public static void main(String[] args) throws IOException {
        System.setIn(InputStream.nullInputStream());
        System.setOut(stream("stdout"));
        System.setErr(stream("stderr"));
        // In this process, so that properties and streams are those of the code.
        JShell shell = JShell.builder().executionEngine("local").build();
        IMPORTS.forEach(each -> shell.eval("import " + each + ";"));
        sun.misc.Signal.handle(new sun.misc.Signal("INT"), signal -> {
            interrupted = true;
            shell.stop();
        });
        InputStreamReader input = new InputStreamReader(new FileInputStream(FileDescriptor.in), StandardCharsets.UTF_8);
        BufferedReader requests = new BufferedReader(input);
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            execute(shell, line.split(" "));
            answer("done");
        }
        System.exit(0);
    }

    /** A request is code, then `NAME:VALUE` for variables of the sandbox (`NAME` alone removes one), then `NAME=VALUE` for its own. */
    private static void execute(JShell shell, String[] request) {
        Map<String, String> before = new HashMap<>();
        Map<String, String> own = new HashMap<>();
        for (int index = 1; index < request.length; index++) {
            String[] parts = request[index].split("[:=]", 2);
            String value = parts.length == 1 ? null : decode(parts[1]);
            if (parts.length == 2 && request[index].charAt(parts[0].length()) == '=') {
                before.put(parts[0], System.getProperty(parts[0]));
                own.put(parts[0], value);
            }
            set(parts[0], value);
        }
        interrupted = false;
        run(shell, decode(request[0]));
        before.forEach((name, value) -> {
            if (own.get(name).equals(System.getProperty(name))) set(name, value);
        });
    }

    /** Runs all statements of the code, up to the first one that fails. The value of the last one is the result. */
    private static void run(JShell shell, String code) {
        String value = null;
        String rest = code;
        while (!rest.isBlank()) {
            CompletionInfo info = shell.sourceCodeAnalysis().analyzeCompletion(rest);
            String source = info.source() == null ? rest : info.source();
            rest = info.source() == null ? "" : info.remaining();
            for (SnippetEvent event : shell.eval(source)) {
                if (event.causeSnippet() != null) continue;
                if (event.exception() != null) {
                    fail(event.exception());
                    return;
                }
                if (event.status() == Snippet.Status.REJECTED) {
                    fail("CompilationError", messages(shell, event.snippet()), source);
                    return;
                }
                boolean isValue = event.snippet().kind() == Snippet.Kind.EXPRESSION
                    || event.snippet().subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND;
                value = isValue ? event.value() : null;
            }
            if (interrupted) {
                fail("InterruptedException", "Execution was interrupted", "");
                return;
            }
        }
        if (value == null) return;
        boolean isString = value.length() > 1 && value.startsWith("\"") && value.endsWith("\"");
        answer("result", isString ? value.substring(1, value.length() - 1).translateEscapes() : value);
    }

    private static void fail(Exception exception) {
        StringWriter trace = new StringWriter();
        exception.printStackTrace(new PrintWriter(trace));
        String name = exception instanceof EvalException known ? known.getExceptionClassName() : exception.getClass().getName();
        fail(name, Objects.requireNonNullElse(exception.getMessage(), ""), trace.toString());
    }

    private static void fail(String name, String value, String trace) {
        answer("error", name, value, trace);
    }

    private static String messages(JShell shell, Snippet snippet) {
        return shell.diagnostics(snippet).filter(Diag::isError).map(each -> each.getMessage(null)).collect(Collectors.joining("\n"));
    }

    private static void set(String name, String value) {
        if (value == null) System.clearProperty(name);
        else System.setProperty(name, value);
    }

    /** Each write is an answer. */
    private static PrintStream stream(String name) {
        return new PrintStream(new OutputStream() {
            @Override
            public void write(int value) {
                write(new byte[] {(byte) value}, 0, 1);
            }

            @Override
            public void write(byte[] bytes, int offset, int length) {
                answer(name, new String(bytes, offset, length, StandardCharsets.UTF_8));
            }
        }, true, StandardCharsets.UTF_8) {};
    }

    private static String decode(String text) {
        return new String(Base64.getDecoder().decode(text), StandardCharsets.UTF_8);
    }

    private static void answer(String kind, String... texts) {
        StringBuilder line = new StringBuilder(kind);
        for (String text : texts) {
            line.append(' ').append(Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8)));
        }
        byte[] bytes = line.append('\n').toString().getBytes(StandardCharsets.US_ASCII);
        synchronized (answers) {
            try {
                answers.write(bytes);
            } catch (IOException gone) {
                System.exit(1);
            }
        }
    }
}
