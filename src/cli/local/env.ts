import { lookup } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { randomBytes } from "node:crypto";
import { RametError } from "../../base/errors.ts";
import { clusterDirectory, type ClusterDirectory, defaultClusterName } from "../../local/cluster-directory.ts";
import { localClusters, isSupervised, readStatus } from "../../local/cluster-status.ts";
import { readSetting } from "../../local/cluster-setting.ts";
import { domainCertificateFiles } from "../../local/control-plane/domain-certificate.ts";
import { readPort } from "../../local/supervisor/parts.ts";
import { withCluster, type Cluster } from "../cluster/cluster.ts";
import { type Io, printLine, writeAll } from "../io.ts";
import { isPlainWord, shellWord } from "../output/render.ts";
import { acceptsDigest } from "../../api/keys/api-key-rules.ts";
import { apiKeyDigest, newApiKey, readApiKey } from "../../api/keys/api-key-text.ts";
import { apiKeyKind } from "../../api/kinds/api-key.ts";
import { readIfExists, replaceFile } from "../../local/files.ts";
import { withLock } from "../../local/tools/lock.ts";
import { createClientAccount } from "../key/api-key.ts";

export interface EnvOptions {
  name?: string;
  output: "sh" | "fish" | "json";
  /**
   * How clients reach the cluster: by names below the domain, or by the addresses of the servers.
   * @default `domain`, if its names resolve
   */
  mode?: "domain" | "addresses";
}

/** `ramet local env`: prints the variables for clients. The same ones each time, as long as the cluster keeps its ports. */
export async function localEnv(io: Io, { name = defaultClusterName, output, mode }: EnvOptions): Promise<void> {
  const directory = clusterDirectory(name, io.environment);
  const ports = await portsOf(directory, io.environment);
  const { domain } = await readSetting(directory.setting);
  const resolves = mode !== undefined || (await resolvesHere(`api.${domain}`));
  if (!resolves) {
    printLine(
      io.stderr,
      `warning: the names below ${domain} do not resolve on this machine, so clients get the addresses of the servers. Signed URLs of files do not work then.`,
    );
    printLine(io.stderr, `hint: ${namesHint}`);
  }
  const variables = await withCluster(io, { kubeconfig: directory.kubeconfig }, async (cluster) => {
    const { ca, allCas } = domainCertificateFiles(directory.tls, domain);
    const key = await localKey(io, directory, cluster);
    return {
      E2B_API_KEY: key,
      E2B_DOMAIN: `${domain}:${ports.gateway}`,
      ...((mode === "addresses" || !resolves) && {
        E2B_API_URL: `http://127.0.0.1:${ports.clientApi}`,
        E2B_SANDBOX_URL: `http://127.0.0.1:${ports.gateway}`,
      }),
      RAMET_API_KEY: key,
      RAMET_API_URL: `http://127.0.0.1:${ports.clientApi}`,
      RAMET_SANDBOX_URL: `http://127.0.0.1:${ports.gateway}`,
      RAMET_DOMAIN: `${domain}:${ports.gateway}`,
      AGENTTIER_API_KEY: key,
      AGENTTIER_API_URL: `http://127.0.0.1:${ports.clientApi}`,
      NODE_EXTRA_CA_CERTS: await withGiven(io.environment, "NODE_EXTRA_CA_CERTS", { ca, own: ca }),
      SSL_CERT_FILE: await withGiven(io.environment, "SSL_CERT_FILE", { ca, own: allCas }),
    };
  });
  await writeAll(io.stdout, formatVariables(variables, output));
}

/**
 * The file for a variable that can name one file only: the cluster's, or, if the user's environment names another one, for example for a
 * proxy, a copy of that one with the cluster's authority.
 * @param files the cluster's authority, and its file for this variable
 */
export async function withGiven(
  environment: Io["environment"],
  variable: string,
  { ca, own }: { ca: string; own: string },
): Promise<string> {
  const given = environment[variable] ?? "";
  const authorities = given === "" || given === own ? undefined : await readIfExists(given);
  if (authorities === undefined) return own;
  const authority = await readFile(ca, "utf8");
  const both = join(dirname(ca), `${variable.toLowerCase()}.crt`);
  await replaceFile(both, authorities.includes(authority) ? authorities : `${authorities.trimEnd()}\n${authority}`);
  return both;
}

const namesHint =
  "Install libnss-myhostname or systemd-resolved, or start the cluster with --domain and a domain with a wildcard DNS entry for 127.0.0.1";

/** @throws RametError `Unavailable` if the cluster is not up */
async function portsOf(directory: ClusterDirectory, environment: Io["environment"]) {
  const status = readStatus(directory.status);
  const [gateway, clientApi] = [readPort(directory.gatewayPort), readPort(directory.clientApiPort)];
  if (isSupervised(status) && status.phase === "up" && gateway !== undefined && clientApi !== undefined) {
    return { gateway, clientApi };
  }
  const running = (await localClusters(environment)).filter(({ phase }) => phase === "up");
  const others = running.map(({ name }) => `, or name the running one: --name ${name}`).slice(0, 1);
  throw new RametError("Unavailable", `The local cluster ${directory.name} is not up`, {
    hint: `Run: ramet local up${directory.name === defaultClusterName ? "" : ` --name ${directory.name}`}${others.join("")}`,
  });
}

/** The gateway listens on 127.0.0.1. */
async function resolvesHere(host: string): Promise<boolean> {
  const addresses = await lookup(host, { all: true }).catch(() => []);
  return addresses.some(({ address }) => address === "127.0.0.1");
}

/** Variables of other ways to reach a cluster are removed, because they would take precedence. */
const allVariables = ["E2B_API_URL", "E2B_SANDBOX_URL"];

/** The variables as commands of a shell, or as a JSON object. */
export function formatVariables(variables: Readonly<Record<string, string>>, output: EnvOptions["output"]): string {
  if (output === "json") return `${JSON.stringify(variables, undefined, 2)}\n`;
  const [set, unset] = output === "fish" ? ["set -gx", "set -e"] : ["export", "unset"];
  const [between, quote] = output === "fish" ? [" ", fishWord] : ["=", shellWord];
  const removed = allVariables.filter((name) => !(name in variables)).map((name) => `${unset} ${name}\n`);
  const lines = Object.entries(variables).map(([name, value]) => `${set} ${name}${between}${quote(value)}\n`);
  return [...removed, ...lines].join("");
}

function fishWord(text: string): string {
  return isPlainWord(text) ? text : `'${text.replaceAll(/[\\']/g, String.raw`\$&`)}'`;
}

/** The names of the ApiKey and of its service account. */
const name = "ramet-local-env";

/**
 * Returns the API key of the user of a local cluster, for the cluster's namespace. It is kept in a file that only the user can
 * read, and replaced if it no longer works.
 */
async function localKey(io: Io, { clientKey }: ClusterDirectory, cluster: Cluster): Promise<string> {
  const { clock, signal } = io;
  return withLock(`${clientKey}.lock`, { clock, signal }, async () => {
    const known = (await readIfExists(clientKey))?.trim();
    if (known !== undefined && (await works(io, cluster, known))) return known;
    const { namespace } = cluster;
    await createClientAccount(io, cluster, name);
    const { text, digest } = newApiKey({ namespace, name, format: "e2b", random: randomBytes });
    const { apiVersion, kind } = apiKeyKind;
    const spec = { serviceAccountName: name, digests: [{ digest }] };
    await cluster.apiKeys.apply(
      { apiVersion, kind, metadata: { namespace, name }, spec },
      { fieldManager: "ramet-cli", force: true, signal },
    );
    await replaceFile(clientKey, `${text}\n`);
    return text;
  });
}

async function works({ clock, signal }: Io, { apiKeys, namespace }: Cluster, text: string): Promise<boolean> {
  const key = readApiKey(text);
  const found = await apiKeys.find({ namespace, name }, { signal });
  if (key === undefined || found === undefined) return false;
  return acceptsDigest(found.spec, apiKeyDigest({ namespace, name }, key.digits), clock.now());
}
