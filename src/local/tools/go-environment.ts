import { homedir } from "node:os";
import { join } from "node:path";

/**
 * What `go` gets so that it keeps all its files in Ramet's cache: modules, build results, telemetry, and a newer toolchain if
 * it fetches one. A place that the user has set in the environment stays, as a shared cache is wanted then; the user's own
 * settings (`go env -w`, such as a proxy) are read from where they are.
 */
export function goEnvironment(cacheFolder: string, environment: NodeJS.ProcessEnv): Record<string, string> {
  const folder = join(cacheFolder, "go");
  const userConfig = given(environment, "XDG_CONFIG_HOME") ?? join(given(environment, "HOME") ?? homedir(), ".config");
  const goPath = given(environment, "GOPATH") ?? folder;
  return {
    CGO_ENABLED: "0",
    GOWORK: "off",
    // Without the last of them a module cache can be removed by nobody but `go clean`.
    GOFLAGS: "-mod=readonly -buildvcs=false -modcacherw",
    GOPATH: goPath,
    GOMODCACHE: given(environment, "GOMODCACHE") ?? join(goPath.split(":")[0] ?? folder, "pkg", "mod"),
    GOCACHE: given(environment, "GOCACHE") ?? join(folder, "build"),
    GOENV: given(environment, "GOENV") ?? join(userConfig, "go", "env"),
    // Where Go counts how it is used, even with telemetry off; there is no variable of its own for that.
    XDG_CONFIG_HOME: join(folder, "config"),
  };
}

function given(environment: NodeJS.ProcessEnv, name: string): string | undefined {
  const value = environment[name];
  return value === "" ? undefined : value;
}
