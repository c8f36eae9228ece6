package main

import (
	"example.com/pulumi-ramet/sdk/go/ramet"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

func main() {
	pulumi.Run(func(ctx *pulumi.Context) error {
		resources := ramet.SandboxTemplateResourcesArgs{Cpu: pulumi.String("1"), Memory: pulumi.String("512Mi")}
		python, err := ramet.NewSandboxTemplate(ctx, "python", &ramet.SandboxTemplateArgs{
			Image:     pulumi.String("python"),
			Resources: resources,
		})
		if err != nil {
			return err
		}
		data, err := ramet.NewNamedSnapshot(ctx, "python-data", &ramet.NamedSnapshotArgs{
			From:   ramet.SnapshotSourceArgs{Template: python.Name},
			Source: pulumi.Map{"template": python.Spec},
			Recipe: ramet.RecipeStepArray{
				ramet.RecipeStepArgs{Copy: ramet.CopyArgs{Path: pulumi.String("/data/seed.csv"), Content: pulumi.String("a,b\n1,2\n")}},
				ramet.RecipeStepArgs{Start: pulumi.String("python3 -m http.server 8000 --directory /data")},
				ramet.RecipeStepArgs{WaitFor: ramet.WaitForArgs{Port: pulumi.Int(8000)}},
			},
		})
		if err != nil {
			return err
		}
		_, err = ramet.NewSandboxSet(ctx, "pool", &ramet.SandboxSetArgs{From: data.Reference, Replicas: pulumi.Int(2)})
		ctx.Export("reference", data.Reference)
		return err
	})
}
