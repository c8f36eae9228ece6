/** One test of E2B's SDKs. */
export interface TestResult {
  /** Relative to the package of the SDK, with the name of the language in front. */
  file: string;
  name: string;
  outcome: "passed" | "failed" | "skipped";
  /** Why it failed. */
  message?: string;
}

/** A table of files, and the reason of each failure. */
export function formatReport(results: readonly TestResult[]): string {
  const files = Map.groupBy(results, ({ file }) => file);
  const rows = [...files].map(([file, tests]) => [file, ...countsOf(tests)]);
  const table = [["file", "passed", "failed", "skipped"], ["---", "--:", "--:", "--:"], ...rows];
  const lines = [...table, ["total", ...countsOf(results)]].map((cells) => `| ${cells.join(" | ")} |`);
  const failures = results
    .filter(({ outcome }) => outcome === "failed")
    .map(({ file, name, message = "" }) => `- ${file}: ${name}\n${indented(message)}`);
  return [...lines, "", ...failures, ""].join("\n");
}

function countsOf(results: readonly TestResult[]): string[] {
  const count = (wanted: TestResult["outcome"]) => results.filter(({ outcome }) => outcome === wanted).length;
  return [count("passed"), count("failed"), count("skipped")].map(String);
}

const mostLines = 12;

function indented(message: string): string {
  const lines = message.split("\n").filter((line) => line.trim() !== "");
  return lines
    .slice(0, mostLines)
    .map((line) => `      ${line}`)
    .join("\n");
}
