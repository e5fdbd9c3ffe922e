#!/bin/bash
# Makes the demo guest: demo.img, a disk that boots, and demo.oci.tar, the same
# disk as a container disk. Usage, see README.md:
#   build.sh OUTPUT_DIR [--ref NAME:TAG]
#   build.sh --print-packages
set -euo pipefail
umask 022
export LC_ALL=C

# What must be installed here. gcc-12 is the compiler the kernel's headers name.
host_packages=(cpio dosfstools gcc-12 gzip libc6-dev libelf1 make mtools syslinux xz-utils)

# What goes into the guest is downloaded and unpacked, never installed: the
# guest does not depend on what this machine has. The libraries are those the
# guest agent links to; install_agent notices should it want another.
guest_packages=(busybox-static qemu-guest-agent
	libc6 libglib2.0-0 libnuma1 libpcre2-8-0 libudev1 liburing2)

# Dependencies are found by depmod.
modules=(acpi/button ata/ahci block/virtio_blk input/evdev isofs/isofs
	net/virtio_net pvpanic/pvpanic-mmio pvpanic/pvpanic-pci scsi/sd_mod
	scsi/sr_mod scsi/virtio_scsi virtio/virtio_balloon virtio/virtio_pci
	char/virtio_console)

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() {
	echo "build.sh: $*" >&2
	exit 1
}

need_packages() {
	local package missing=()
	for package in "${host_packages[@]}"; do
		[[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
			missing+=("$package")
	done
	((${#missing[@]} == 0)) || fail "install first: apt-get install ${missing[*]}"
}

# What apt would download, a line "package version" for each.
candidates() {
	apt-cache show --no-all-versions linux-image-cloud-amd64 "${guest_packages[@]}" 2>/dev/null |
		awk '$1 == "Package:" { package = $2 } $1 == "Version:" { print package, $2 }
			# The meta package names the current kernel.
			$1 == "Depends:" && package == "linux-image-cloud-amd64" { print $2, $4 }' |
		tr -d '),'
}

# Downloads packages and unpacks them into a folder.
unpack() {
	local into=$1 deb
	shift
	mkdir -p "$work/debs" "$into"
	# apt's own user may not enter the work folder, which only matters to its sandbox.
	(cd "$work/debs" && apt-get -qq -o APT::Sandbox::User=root download "$@")
	for deb in "$work/debs/"*.deb; do
		dpkg-deb -x "$deb" "$into"
	done
	rm -r "$work/debs"
}

# Debian's cloud kernel has no driver for AHCI, and so no SATA. The generic
# kernel has one, but is packed with xz: emulated, it takes 2.7 s longer to boot.
# So the driver is compiled, from Debian's sources for just this kernel.
build_ahci() {
	local kbuild=$work/kbuild source=$work/ahci headers tarball
	headers=$kbuild/usr/src/linux-headers-$release
	unpack "$kbuild" "linux-headers-$release" "linux-headers-${release%-cloud-amd64}-common" \
		"linux-kbuild-$series" "linux-source-$series=$version"
	mkdir -p "$source"
	# tar stops at the last file wanted and leaves most of the tarball unread.
	tarball=$kbuild/usr/src/linux-source-$series.tar.xz
	tar -xJf "$tarball" -C "$source" --strip-components=3 --occurrence=1 \
		"linux-source-$series/drivers/ata/"{ahci.c,ahci.h,libahci.c,libata.h}
	# The headers name each other as if they were installed.
	sed -i "s|/usr/src/|$kbuild/usr/src/|" "$headers/Makefile"
	# The cloud kernel's configuration lacks the one setting ahci.c wants. The
	# work folder's name must not get into the driver: it is another each time.
	cat >"$source/Kbuild" <<-EOF
		obj-m := libahci.o ahci.o
		ccflags-y := -DCONFIG_SATA_MOBILE_LPM_POLICY=0 -fmacro-prefix-map=$work/=
	EOF
	make -s -C "$headers" M="$source" modules >"$source/log" 2>&1 || {
		cat "$source/log" >&2
		fail "the AHCI driver does not compile"
	}
	cp "$source/"{ahci,libahci}.ko "$work/kernel/lib/modules/$release/kernel/drivers/ata/"
	rm -r "$kbuild"
}

# Copies the wanted modules and those they need, without debug data, build-id and
# signature, which an emulated processor is slow to check.
install_modules() {
	local tree=lib/modules/$release module file
	mkdir -p "$root/$tree/kernel"
	"$busybox" depmod -b "$work/kernel" "$release"
	for module in "${modules[@]}"; do
		sed -n "s|^\([^:]*/$module\.ko\):|\1|p" "$work/kernel/$tree/modules.dep" | grep . ||
			fail "the kernel package has no module $module"
	done | tr ' ' '\n' | sort -u | while read -r file; do
		mkdir -p "$root/$tree/${file%/*}"
		strip --strip-debug -R .BTF -R .note.gnu.build-id -o "$root/$tree/$file" "$work/kernel/$tree/$file"
	done
	"$busybox" depmod -b "$root" "$release"
}

# The agent with its libraries, as the loader of the unpacked packages finds them.
install_agent() {
	local libraries=lib/x86_64-linux-gnu loader=lib64/ld-linux-x86-64.so.2 needed file
	local agent=usr/sbin/qemu-ga packages=$work/guest
	mkdir -p "$root/$libraries" "$root/lib64"
	cp "$packages/$agent" "$root/$agent"
	cp -L "$packages/$loader" "$root/$loader"
	needed=$("$packages/$loader" --library-path "$packages/$libraries:$packages/usr/$libraries" \
		--list "$packages/$agent" | sed -n 's/.* => \([^(]*[^( ]\).*/\1/p')
	while read -r file; do
		# Otherwise it is this machine's, or found nowhere.
		[[ $file == "$packages"/* ]] || fail "qemu-ga needs a library that guest_packages lacks: $file"
		[[ $file == */$loader ]] || cp -L "$file" "$root/$libraries/"
	done <<<"$needed"
}

# Not compressed: the loader reads it about as fast as an emulated processor
# unpacks it.
build_initrd() {
	local applet
	mkdir -p "$root"/{bin,dev,mnt,proc,root,run,sbin,sys,tmp,usr/bin,usr/sbin,var}
	cp "$busybox" "$root/bin/busybox"
	"$busybox" --list-full | grep -v '^bin/busybox$' | while read -r applet; do
		ln -s /bin/busybox "$root/$applet"
	done
	ln -s /run "$root/var/run"
	install_modules
	install_agent
	gcc-12 -O2 -static -s -Wall -Wextra -o "$root/sbin/http" "$here/http.c"
	cp -r "$here/guest/." "$root/"
	chmod -R u=rwX,go=rX "$root"
	find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
	(cd "$root" && find . | sort | cpio --quiet --reproducible -o -H newc -R 0:0) >"$work/initrd"
}

build_disk() {
	local disk=$work/demo.img
	truncate -s 32M "$disk"
	mkfs.vfat --invariant -n VIRTSET "$disk" >/dev/null
	syslinux --install "$disk"
	mcopy -i "$disk" "$here/syslinux.cfg" ::syslinux.cfg
	mcopy -i "$disk" "$work/kernel/boot/vmlinuz-$release" ::vmlinuz
	mcopy -i "$disk" "$work/initrd" ::initrd
}

# Adds a file to the OCI archive's blobs and prints its descriptor.
blob() {
	local file=$1 type=$2 extra=${3:-} digest
	digest=$(sha256sum "$file" | cut -d ' ' -f 1)
	printf '{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%d%s}' \
		"$type" "$digest" "$(stat -c %s "$file")" "$extra"
	mv "$file" "$work/oci/blobs/sha256/$digest"
}

reproducible_tar() {
	tar --format=gnu --sort=name --mtime="@$SOURCE_DATE_EPOCH" --numeric-owner "$@"
}

# The archive is small enough to write by hand, which saves two tools and gives
# the same bytes each time.
build_oci_archive() {
	local layer=$work/layer.tar created diff_id layer_descriptor config
	mkdir -p "$work/layer/disk" "$work/oci/blobs/sha256"
	cp "$work/demo.img" "$work/layer/disk/"
	chmod 0440 "$work/layer/disk/demo.img"
	# 107 is the qemu user of container disks.
	reproducible_tar --owner=107 --group=107 -C "$work/layer" -cf "$layer" disk
	diff_id=$(sha256sum "$layer" | cut -d ' ' -f 1)
	gzip -n "$layer"
	layer_descriptor=$(blob "$layer.gz" layer.v1.tar+gzip)

	created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
	printf '{"created":"%s","architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
		"$created" "$diff_id" >"$work/config.json"
	config=$(blob "$work/config.json" config.v1+json)
	printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s,"layers":[%s]}' \
		"$config" "$layer_descriptor" >"$work/manifest.json"
	printf '{"schemaVersion":2,"manifests":[%s]}' \
		"$(blob "$work/manifest.json" manifest.v1+json \
			",\"annotations\":{\"org.opencontainers.image.ref.name\":\"$ref\"}")" >"$work/oci/index.json"
	printf '{"imageLayoutVersion":"1.0.0"}' >"$work/oci/oci-layout"
	reproducible_tar --owner=0 --group=0 -C "$work/oci" -cf "$work/demo.oci.tar" blobs index.json oci-layout
}

# All that the result is made from, as text.
inputs() {
	echo "ref $ref"
	echo "$packages"
	(
		cd "$here"
		find guest -printf '%p %M %l\n' | sort
		find build.sh http.c syslinux.cfg guest -type f -print0 | sort -z | xargs -0 sha256sum
	)
}

# The finished file replaces the old one in one step.
publish() {
	temporary=$(mktemp "$output/.$1.XXXXXX")
	cp --sparse=always "$work/$1" "$temporary"
	chmod 0644 "$temporary"
	mv "$temporary" "$output/$1"
}

usage() {
	sed -n 's/^#   //p' "${BASH_SOURCE[0]}" >&2
	exit 2
}

output='' ref=localhost/virtset-demo:1
while (($#)); do
	case $1 in
	--print-packages)
		printf '%s\n' "${host_packages[@]}"
		exit
		;;
	--ref)
		[[ ${2:-} =~ ^[a-z0-9][a-zA-Z0-9._:/-]*:[a-zA-Z0-9._-]+$ ]] || usage
		ref=$2
		shift
		;;
	-* | '') usage ;;
	*)
		[[ -z $output ]] || usage
		output=$1
		;;
	esac
	shift
done
[[ -n $output ]] || usage

packages=$(candidates)
(($(wc -l <<<"$packages") == ${#guest_packages[@]} + 2)) ||
	fail "apt does not know all of linux-image-cloud-amd64 ${guest_packages[*]}; run apt-get update first"
read -r release version <<<"$(sed -n 's/^linux-image-\([0-9]\)/\1/p' <<<"$packages")"
series=$(cut -d . -f 1,2 <<<"$release")
work=$(mktemp -d)
temporary=$work/none
trap 'rm -rf "$work" "$temporary"' EXIT
inputs >"$work/demo.stamp"
if [[ -e $output/demo.img && -e $output/demo.oci.tar ]] && cmp -s "$work/demo.stamp" "$output/demo.stamp"; then
	echo "$output: up to date"
	exit
fi

need_packages
mkdir -p "$output"
echo "downloading Linux $release and the guest's packages"
unpack "$work/kernel" "linux-image-$release"
unpack "$work/guest" "${guest_packages[@]}"
busybox=$work/guest/bin/busybox
root=$work/root
# The kernel's date for every file, so that the same packages give the same bytes.
SOURCE_DATE_EPOCH=$(stat -c %Y "$work/kernel/boot/vmlinuz-$release")
export SOURCE_DATE_EPOCH
echo "downloading the source of the AHCI driver and compiling it"
build_ahci
echo "packing"
build_initrd
build_disk
build_oci_archive
publish demo.img
publish demo.oci.tar
# Last: without it the next run starts over.
publish demo.stamp
echo "$output: demo.img, demo.oci.tar ($ref, Linux $release)"
