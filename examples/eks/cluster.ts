import * as aws from "@pulumi/aws";
import { Config, jsonStringify } from "@pulumi/pulumi";

const region = new Config("aws").require("region");

// Nodes have public addresses, which costs no NAT gateway. Their security group lets nobody outside the cluster connect.
const vpc = new aws.ec2.Vpc("ramet", { cidrBlock: "10.0.0.0/16", enableDnsHostnames: true });
const internet = new aws.ec2.InternetGateway("ramet", { vpcId: vpc.id });
const routes = new aws.ec2.RouteTable("ramet", {
  vpcId: vpc.id,
  routes: [{ cidrBlock: "0.0.0.0/0", gatewayId: internet.id }],
});
const subnets = ["a", "b"].map((zone, index) => {
  const subnet = new aws.ec2.Subnet(zone, {
    vpcId: vpc.id,
    availabilityZone: `${region}${zone}`,
    cidrBlock: `10.0.${index * 64}.0/18`,
    mapPublicIpOnLaunch: true,
    tags: { "kubernetes.io/role/elb": "1" },
  });
  new aws.ec2.RouteTableAssociation(zone, { subnetId: subnet.id, routeTableId: routes.id });
  return subnet;
});
const subnetIds = subnets.map(({ id }) => id);

function role(name: string, service: string, policies: string[]): aws.iam.Role {
  const actions = service === "pods.eks.amazonaws.com" ? ["sts:AssumeRole", "sts:TagSession"] : ["sts:AssumeRole"];
  const made = new aws.iam.Role(name, {
    assumeRolePolicy: jsonStringify({
      Version: "2012-10-17",
      Statement: [{ Effect: "Allow", Principal: { Service: service }, Action: actions }],
    }),
  });
  for (const policy of policies)
    new aws.iam.RolePolicyAttachment(`${name}-${policy}`, {
      role: made.name,
      policyArn: `arn:aws:iam::aws:policy/${policy}`,
    });
  return made;
}

// Image volumes, from which sandboxes get their files, are on by default from 1.35.
export const cluster = new aws.eks.Cluster("ramet", {
  version: "1.35",
  roleArn: role("control-plane", "eks.amazonaws.com", ["AmazonEKSClusterPolicy"]).arn,
  vpcConfig: { subnetIds },
  accessConfig: { authenticationMode: "API", bootstrapClusterCreatorAdminPermissions: true },
});

// Amazon Linux 2023 has containerd 2 and XFS. One type of instance, because memory is restored on equal CPUs.
const policies = ["AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryReadOnly"];
const nodes = new aws.eks.NodeGroup("sandboxes", {
  clusterName: cluster.name,
  nodeRoleArn: role("nodes", "ec2.amazonaws.com", policies).arn,
  subnetIds,
  amiType: "AL2023_x86_64_STANDARD",
  instanceTypes: ["m7i.2xlarge"],
  diskSize: 200,
  scalingConfig: { minSize: 2, desiredSize: 2, maxSize: 10 },
});

// They make the certificate of the gateways, and publish their names in a zone of Route 53 that exists.
const dns = role("dns", "pods.eks.amazonaws.com", ["AmazonRoute53FullAccess"]);
const addons = ["cert-manager", "external-dns"].map((name) => {
  const identity = new aws.eks.PodIdentityAssociation(name, {
    clusterName: cluster.name,
    namespace: name,
    serviceAccount: name,
    roleArn: dns.arn,
  });
  return new aws.eks.Addon(name, { clusterName: cluster.name, addonName: name }, { dependsOn: [nodes, identity] });
});

/** What the objects in the cluster wait for. */
export const ready = [nodes, ...addons];

/** Repositories for the two images of Ramet, from which the nodes may pull. */
export const [controllers, cell] = ["ramet", "ramet-cell"].map(
  (name) => new aws.ecr.Repository(name, { name, forceDelete: true }).repositoryUrl,
);

export const kubeconfig = jsonStringify({
  apiVersion: "v1",
  kind: "Config",
  "current-context": "ramet",
  contexts: [{ name: "ramet", context: { cluster: "ramet", user: "aws" } }],
  clusters: [
    {
      name: "ramet",
      cluster: {
        server: cluster.endpoint,
        "certificate-authority-data": cluster.certificateAuthority.data,
      },
    },
  ],
  users: [
    {
      name: "aws",
      user: {
        exec: {
          apiVersion: "client.authentication.k8s.io/v1beta1",
          command: "aws",
          args: ["eks", "get-token", "--cluster-name", cluster.name, "--region", region],
          interactiveMode: "Never",
        },
      },
    },
  ],
});
