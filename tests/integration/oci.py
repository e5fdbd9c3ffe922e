"""Container disks made by hand, so that they can be wrong in every way."""

import gzip
import hashlib
import io
import json
import tarfile


def file(name, content, **fields):
    return {"name": name, "content": content, **fields}


def link(name, target):
    return {"name": name, "type": tarfile.SYMTYPE, "linkname": target, "content": b""}


def layer(entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for entry in entries:
            info = tarfile.TarInfo(entry["name"])
            info.size = len(entry["content"])
            info.mode = 0o444
            info.type = entry.get("type", tarfile.REGTYPE)
            info.linkname = entry.get("linkname", "")
            tar.addfile(info, io.BytesIO(entry["content"]))
    return out.getvalue()


def archive(path, entries, tag="1"):
    """An OCI archive of one layer; returns what skopeo calls it."""
    blobs = {}

    def blob(content, media_type, **fields):
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": f"application/vnd.oci.image.{media_type}",
                "digest": f"sha256:{digest}", "size": len(content), **fields}

    plain = layer(entries)
    descriptor = blob(gzip.compress(plain), "layer.v1.tar+gzip")
    configuration = blob(json.dumps({
        "architecture": "amd64", "os": "linux", "config": {},
        "rootfs": {"type": "layers",
                   "diff_ids": ["sha256:" + hashlib.sha256(plain).hexdigest()]}}).encode(),
        "config.v1+json")
    manifest = blob(json.dumps({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": configuration, "layers": [descriptor]}).encode(), "manifest.v1+json",
        annotations={"org.opencontainers.image.ref.name": tag})
    parts = {f"blobs/sha256/{digest}": content for digest, content in blobs.items()}
    parts["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [manifest]}).encode()
    parts["oci-layout"] = b'{"imageLayoutVersion":"1.0.0"}'
    with tarfile.open(path, "w") as tar:
        for name, content in parts.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return f"oci-archive:{path}:{tag}"
