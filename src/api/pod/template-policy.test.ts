import { describe, expect, it } from "vitest";
import { parsePodTemplate } from "../schema/pod-template.ts";
import { RametError } from "../../base/errors.ts";
import { assertTemplateAllowed, forbiddenFields, restrictedFields } from "./template-policy.ts";

const main = { name: "main", image: "python" };
const none: ReadonlySet<string> = new Set();

function paths(spec: object, allowed: ReadonlySet<string> = none): string[] {
  const template = parsePodTemplate({ spec: { containers: [main], ...spec } });
  return forbiddenFields(template, allowed).map(({ path }) => path);
}

describe("a template", () => {
  it("can use what Pod Security's level baseline allows", () => {
    const securityContext = {
      privileged: false,
      allowPrivilegeEscalation: true,
      capabilities: { drop: ["ALL"], add: ["CHOWN", "NET_BIND_SERVICE"] },
      procMount: "Default",
      seccompProfile: { type: "RuntimeDefault" },
      appArmorProfile: { type: "Localhost", localhostProfile: "mine" },
      seLinuxOptions: { type: "container_t", level: "s0" },
    };
    const container = { ...main, securityContext, ports: [{ containerPort: 8000, hostPort: 0 }] };
    const volumes = [
      { name: "a", emptyDir: {} },
      { name: "b", csi: { driver: "x.example" } },
      { name: "c", ephemeral: { volumeClaimTemplate: { spec: {} } } },
      { name: "d", projected: { sources: [{ configMap: { name: "x" } }, { downwardAPI: {} }] } },
      { name: "e", hostPath: null },
    ];
    const spec = {
      containers: [container],
      initContainers: [container],
      volumes,
      hostNetwork: false,
      serviceAccountName: "default",
      securityContext: { runAsUser: 1000, sysctls: [{ name: "net.ipv4.tcp_syncookies", value: "1" }] },
    };
    expect(paths(spec)).toEqual([]);
  });

  it.each<[object, string[]]>([
    [{ hostPID: true }, ["spec.template.spec.hostPID"]],
    [{ hostPID: "yes" }, ["spec.template.spec.hostPID"]],
    [{ serviceAccount: "admin" }, ["spec.template.spec.serviceAccount"]],
    [{ nodeName: "node-1" }, ["spec.template.spec.nodeName"]],
    [
      {
        volumes: [
          { name: "a", emptyDir: {} },
          { name: "b", hostPath: { path: "/" } },
        ],
      },
      ["spec.template.spec.volumes[1].hostPath"],
    ],
    [
      { volumes: [{ name: "a", projected: { sources: [{ secret: {} }, { serviceAccountToken: { path: "t" } }] } }] },
      ["spec.template.spec.volumes[0].projected.sources[1].serviceAccountToken"],
    ],
    [
      { containers: [{ ...main, securityContext: { privileged: true } }] },
      ["spec.template.spec.containers[0].securityContext.privileged"],
    ],
    [
      { initContainers: [{ name: "s", securityContext: { capabilities: { add: ["CHOWN", "SYS_ADMIN"] } } }] },
      ["spec.template.spec.initContainers[0].securityContext.capabilities.add[1]"],
    ],
    [
      { initContainers: [{ name: "s", securityContext: { capabilities: { add: "SYS_ADMIN" } } }] },
      ["spec.template.spec.initContainers[0].securityContext.capabilities.add"],
    ],
    [
      { containers: [main, { ...main, ports: [{ containerPort: 80, hostPort: 80 }] }] },
      ["spec.template.spec.containers[1].ports[0].hostPort"],
    ],
    [
      { containers: [{ ...main, readinessProbe: { httpGet: { port: 80, host: "169.254.169.254" } } }] },
      ["spec.template.spec.containers[0].readinessProbe.httpGet.host"],
    ],
    [{ securityContext: { seccompProfile: "x" } }, ["spec.template.spec.securityContext.seccompProfile"]],
  ])("%j is refused by the path of the field", (spec, expected) => {
    expect(paths(spec)).toEqual(expected);
  });

  it("is refused for an AppArmor annotation", () => {
    const annotations = { "container.apparmor.security.beta.kubernetes.io/main": "unconfined", other: "x" };
    const template = parsePodTemplate({ metadata: { annotations }, spec: { containers: [main] } });
    expect(forbiddenFields(template, none)).toEqual([
      {
        name: "appArmorProfile",
        path: "spec.template.metadata.annotations[container.apparmor.security.beta.kubernetes.io/main]",
      },
    ]);
  });

  it("can use the fields that the namespace allows, and only these", () => {
    const spec = { hostPID: true, volumes: [{ name: "a", hostPath: { path: "/" } }] };
    expect(paths(spec, new Set(["hostPath"]))).toEqual(["spec.template.spec.hostPID"]);
    expect(paths(spec, new Set(restrictedFields.map(({ name }) => name)))).toEqual([]);
  });
});

describe("the refusal", () => {
  const template = parsePodTemplate({ spec: { containers: [main], hostIPC: true } });
  const refusal = (allowed: string): string => {
    try {
      assertTemplateAllowed(template, { name: "team-a", annotations: { "ramet.dev/allow-in-templates": allowed } });
      return "";
    } catch (error) {
      return RametError.from(error).describe();
    }
  };

  it("names the field, the namespace and the annotation", () => {
    expect(refusal("")).toBe(
      "Templates in the namespace team-a cannot use spec.template.spec.hostIPC. Remove the field, or let an administrator add hostIPC to the annotation ramet.dev/allow-in-templates of the namespace [Forbidden]",
    );
    expect(refusal("hostPath, hostIPC,")).toBe("");
  });

  it("reports a name in the annotation that is unknown, also if the template would be allowed", () => {
    expect(refusal("hostIPC,hostpath")).toContain(
      "The annotation ramet.dev/allow-in-templates of the namespace team-a names the unknown field hostpath",
    );
  });
});
