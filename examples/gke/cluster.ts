import * as gcp from "@pulumi/gcp";
import { Config, jsonStringify } from "@pulumi/pulumi";

const config = new Config();
const settings = new Config("gcp");
export const project = settings.require("project");
export const region = settings.require("region");
export const domain = config.require("domain");

const apis = ["artifactregistry", "certificatemanager", "container", "dns", "iamcredentials"].map(
  (name) => new gcp.projects.Service(name, { service: `${name}.googleapis.com`, disableOnDestroy: false }),
);
const after = { dependsOn: apis };

const network = new gcp.compute.Network("ramet", { autoCreateSubnetworks: false }, after);
const subnet = new gcp.compute.Subnetwork("ramet", {
  network: network.id,
  region,
  ipCidrRange: "10.0.0.0/20",
  privateIpGoogleAccess: true,
});

// Standard, because Autopilot does not allow what cells need. Image volumes, from which sandboxes get their files, are on by default
// from 1.35.
const cluster = new gcp.container.Cluster("ramet", {
  location: region,
  network: network.id,
  subnetwork: subnet.id,
  minMasterVersion: "1.35",
  removeDefaultNodePool: true,
  initialNodeCount: 1,
  ipAllocationPolicy: {},
  workloadIdentityConfig: { workloadPool: `${project}.svc.id.goog` },
  gatewayApiConfig: { channel: "CHANNEL_STANDARD" },
  deletionProtection: false,
});

// One family of CPUs, because memory is restored on equal ones.
const account = new gcp.serviceaccount.Account("nodes", { accountId: "ramet-nodes" });
const roles = ["container.defaultNodeServiceAccount", "artifactregistry.reader"].map(
  (role) => new gcp.projects.IAMMember(role, { project, role: `roles/${role}`, member: account.member }),
);
const nodes = new gcp.container.NodePool(
  "sandboxes",
  {
    cluster: cluster.id,
    nodeCount: 1,
    autoscaling: { minNodeCount: 1, maxNodeCount: 5 },
    nodeConfig: {
      machineType: "c3-standard-8",
      imageType: "UBUNTU_CONTAINERD",
      diskSizeGb: 200,
      diskType: "pd-balanced",
      serviceAccount: account.email,
      oauthScopes: ["https://www.googleapis.com/auth/cloud-platform"],
      workloadMetadataConfig: { mode: "GKE_METADATA" },
    },
  },
  { dependsOn: roles },
);

/** What the objects in the cluster wait for. */
export const ready = [nodes];

// The address of the gateways, a zone for the domain, whose name servers go to its registrar, and a certificate.
const address = new gcp.compute.GlobalAddress("ramet", {}, after);
export const addressName = address.name;
const zone = new gcp.dns.ManagedZone("ramet", { dnsName: `${domain}.` }, after);
for (const name of [domain, `*.${domain}`])
  new gcp.dns.RecordSet(name, {
    managedZone: zone.name,
    name: `${name}.`,
    type: "A",
    ttl: 300,
    rrdatas: [address.address],
  });
const challenge = new gcp.certificatemanager.DnsAuthorization("ramet", { domain }, after);
const record = challenge.dnsResourceRecords.apply(([first]) => first ?? { name: "", type: "", data: "" });
new gcp.dns.RecordSet("challenge", {
  managedZone: zone.name,
  name: record.name,
  type: record.type,
  ttl: 300,
  rrdatas: [record.data],
});
const certificate = new gcp.certificatemanager.Certificate("ramet", {
  managed: { domains: [domain, `*.${domain}`], dnsAuthorizations: [challenge.id] },
});
const map = new gcp.certificatemanager.CertificateMap("ramet", {}, after);
for (const hostname of [domain, `*.${domain}`])
  new gcp.certificatemanager.CertificateMapEntry(hostname, { map: map.name, hostname, certificates: [certificate.id] });
export const certificateMap = map.name;

/** The repository for the two images of Ramet, from which the nodes may pull. */
const repository = new gcp.artifactregistry.Repository(
  "ramet",
  { repositoryId: "ramet", location: region, format: "DOCKER" },
  after,
);
export const registry = repository.repositoryId.apply((id) => `${region}-docker.pkg.dev/${project}/${id}`);

export const kubeconfig = jsonStringify({
  apiVersion: "v1",
  kind: "Config",
  "current-context": "ramet",
  contexts: [{ name: "ramet", context: { cluster: "ramet", user: "gcloud" } }],
  clusters: [
    {
      name: "ramet",
      cluster: {
        server: cluster.endpoint.apply((host) => `https://${host}`),
        "certificate-authority-data": cluster.masterAuth.clusterCaCertificate,
      },
    },
  ],
  users: [
    {
      name: "gcloud",
      user: {
        exec: {
          apiVersion: "client.authentication.k8s.io/v1beta1",
          command: "gke-gcloud-auth-plugin",
          interactiveMode: "Never",
          provideClusterInfo: true,
        },
      },
    },
  ],
});
