import pulumi
import pulumi_ramet as ramet

python = ramet.SandboxTemplate("python", image="python", resources={"cpu": "1", "memory": "512Mi"})
data = ramet.NamedSnapshot(
    "python-data",
    from_={"template": python.name},
    source={"template": python.spec},
    recipe=[
        {"copy": {"path": "/data/seed.csv", "content": "a,b\n1,2\n"}},
        {"start": "python3 -m http.server 8000 --directory /data"},
        {"wait_for": {"port": 8000}},
    ],
)
ramet.SandboxSet("pool", from_=data.reference, replicas=2)
pulumi.export("reference", data.reference)
