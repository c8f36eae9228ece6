import * as azure from "@pulumi/azure-native";
import { Config, secret } from "@pulumi/pulumi";

export const location = new Config("azure-native").require("location");
export const group = new azure.resources.ResourceGroup("ramet", { location });
const resourceGroupName = group.name;

const network = new azure.network.VirtualNetwork("ramet", {
  resourceGroupName,
  addressSpace: { addressPrefixes: ["10.0.0.0/16"] },
});
const subnet = new azure.network.Subnet("nodes", {
  resourceGroupName,
  virtualNetworkName: network.name,
  addressPrefix: "10.0.0.0/20",
});

// Image volumes, from which sandboxes get their files, are on by default from 1.35. One type of machine, because memory is restored on
// equal CPUs.
export const cluster = new azure.containerservice.ManagedCluster("ramet", {
  resourceGroupName,
  dnsPrefix: "ramet",
  kubernetesVersion: "1.35",
  identity: { type: "SystemAssigned" },
  oidcIssuerProfile: { enabled: true },
  securityProfile: { workloadIdentity: { enabled: true } },
  networkProfile: {
    networkPlugin: "azure",
    networkPluginMode: "overlay",
    networkPolicy: "cilium",
    networkDataplane: "cilium",
  },
  storageProfile: { diskCSIDriver: { enabled: true }, snapshotController: { enabled: true } },
  agentPoolProfiles: [
    {
      name: "sandboxes",
      mode: "System",
      vmSize: "Standard_D8s_v5",
      osSKU: "AzureLinux",
      osDiskSizeGB: 200,
      enableAutoScaling: true,
      minCount: 2,
      count: 2,
      maxCount: 10,
      vnetSubnetID: subnet.id,
    },
  ],
});

// The address of the gateways, and a zone for the domain, whose name servers go to its registrar.
export const domain = new Config().require("domain");
const address = new azure.network.PublicIPAddress("gateways", {
  resourceGroupName: cluster.nodeResourceGroup.apply((name) => name ?? ""),
  location,
  sku: { name: "Standard" },
  publicIPAllocationMethod: "Static",
});
export const addressName = address.name;
const zone = new azure.dns.Zone("ramet", { resourceGroupName, zoneName: domain, location: "global" });
for (const relativeRecordSetName of ["@", "*"])
  new azure.dns.RecordSet(relativeRecordSetName === "@" ? "apex" : "wildcard", {
    resourceGroupName,
    zoneName: zone.name,
    relativeRecordSetName,
    recordType: "A",
    ttl: 300,
    aRecords: [{ ipv4Address: address.ipAddress.apply((ip) => ip ?? "") }],
  });

/** The registry for the two images of Ramet, from which the nodes may pull. */
const registry = new azure.containerregistry.Registry("ramet", { resourceGroupName, sku: { name: "Standard" } });
export const registryHost = registry.loginServer;
export const { subscriptionId } = azure.config;
const roles = `/subscriptions/${subscriptionId ?? ""}/providers/Microsoft.Authorization/roleDefinitions`;
new azure.authorization.RoleAssignment("pull", {
  scope: registry.id,
  principalId: cluster.identityProfile.apply((profiles) => profiles?.["kubeletidentity"]?.objectId ?? ""),
  principalType: "ServicePrincipal",
  roleDefinitionId: `${roles}/7f951dda-4ed3-4680-a7ca-43fe172d538d`, // AcrPull
});

/** Without it, the cluster cannot connect a load balancer with a subnet that it has not made. */
export const joinsSubnet = new azure.authorization.RoleAssignment("subnet", {
  scope: subnet.id,
  principalId: cluster.identity.apply((identity) => identity?.principalId ?? ""),
  principalType: "ServicePrincipal",
  roleDefinitionId: `${roles}/4d97b98b-1d4f-4787-a291-c67834d212e7`, // Network Contributor
});

/** The cluster's OpenID Connect issuer, which the identity of the controllers trusts. */
export const issuerUrl = cluster.oidcIssuerProfile.apply((profile) => profile?.issuerURL ?? "");

/** It contains the key of a client. */
export const kubeconfig = secret(
  azure.containerservice
    .listManagedClusterUserCredentialsOutput({ resourceGroupName, resourceName: cluster.name })
    .apply(({ kubeconfigs: [first] }) => Buffer.from(first?.value ?? "", "base64").toString()),
);
