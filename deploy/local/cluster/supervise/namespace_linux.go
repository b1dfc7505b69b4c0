package supervise

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// hidden are the folders of the host that a node replaces with empty ones: there containerd, the kubelet and the
// network plugins keep state under fixed names, which must meet neither the host's nor another cluster's.
var hidden = []string{"/run", "/var/lib", "/var/log"}

// enter prepares the namespaces that this process was started in. It must be their first process.
func enter(spec Spec) error {
	if err := syscall.Sethostname([]byte(spec.Hostname)); err != nil {
		return fmt.Errorf("naming the node: %w", err)
	}
	// First cut the ties to the host's mounts, then let pods share mounts with the kubelet, as it expects.
	for _, flags := range []uintptr{syscall.MS_PRIVATE, syscall.MS_SHARED} {
		if err := syscall.Mount("none", "/", "", flags|syscall.MS_REC, ""); err != nil {
			return fmt.Errorf("separating the node's mounts from the host's: %w", err)
		}
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting the node's /proc: %w", err)
	}
	if err := remountSys(); err != nil {
		return err
	}
	if err := hideFolders(append([]string{spec.StateDir}, spec.Visible...)); err != nil {
		return err
	}
	if err := writeResolvers(spec); err != nil {
		return err
	}
	return configureNetwork(spec)
}

// remountSys makes /sys show the node's interfaces instead of the host's, and keeps the control groups visible.
func remountSys() error {
	return keeping([]string{"/sys/fs/cgroup"}, func() error {
		if err := syscall.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
			return fmt.Errorf("mounting the node's /sys: %w", err)
		}
		return nil
	})
}

func hideFolders(visible []string) error {
	var keep []string
	for _, folder := range visible {
		for _, parent := range hidden {
			if strings.HasPrefix(folder, parent+"/") {
				keep = append(keep, folder)
			}
		}
	}
	return keeping(keep, func() error {
		for _, folder := range hidden {
			if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "mode=0755"); err != nil {
				return fmt.Errorf("hiding the host's %s: %w", folder, err)
			}
		}
		return nil
	})
}

// keeping runs mount, which may cover the folders, and puts them back where they were.
func keeping(folders []string, mount func() error) error {
	handles := make([]int, 0, len(folders))
	defer func() {
		for _, handle := range handles {
			syscall.Close(handle)
		}
	}()
	for _, folder := range folders {
		const openPath = 0x200000 // O_PATH, which package syscall lacks.
		handle, err := syscall.Open(folder, openPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("opening %s: %w", folder, err)
		}
		handles = append(handles, handle)
	}
	if err := mount(); err != nil {
		return err
	}
	for index, folder := range folders {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("making a mount point for %s: %w", folder, err)
		}
		source := fmt.Sprintf("/proc/self/fd/%d", handles[index])
		if err := syscall.Mount(source, folder, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
			return fmt.Errorf("putting %s back: %w", folder, err)
		}
	}
	return nil
}

// writeResolvers replaces what /etc/resolv.conf leads to: on many hosts a link into /run, which is hidden by now.
func writeResolvers(spec Spec) error {
	own := filepath.Join(spec.StateDir, "resolv.conf")
	if err := os.WriteFile(own, []byte(spec.Resolvers), 0o644); err != nil {
		return fmt.Errorf("writing the node's resolvers: %w", err)
	}
	target := "/etc/resolv.conf"
	if link, err := os.Readlink(target); err == nil {
		if !filepath.IsAbs(link) {
			link = filepath.Join("/etc", link)
		}
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			return fmt.Errorf("writing the node's resolvers: %w", err)
		}
		return os.WriteFile(link, []byte(spec.Resolvers), 0o644)
	}
	if _, err := os.Stat(target); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := syscall.Mount(own, target, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting the node's resolvers: %w", err)
	}
	return nil
}

// configureNetwork sets up the node's end of the link to the host. The starter has put it here before it let go.
func configureNetwork(spec Spec) error {
	for _, arguments := range [][]string{
		{"link", "set", "lo", "up"},
		{"address", "add", spec.Address, "dev", "eth0"},
		{"link", "set", "eth0", "up"},
		{"route", "add", "default", "via", spec.Gateway},
	} {
		if output, err := exec.Command("ip", arguments...).CombinedOutput(); err != nil {
			return fmt.Errorf("configuring the node's network: ip %s: %w: %s",
				strings.Join(arguments, " "), err, strings.TrimSpace(string(output)))
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("letting the node forward packets: %w", err)
	}
	return nil
}

// awaitStarter blocks until the starter has connected the node to the host. A starter that died first closes the pipe.
func awaitStarter(pipe io.Reader) error {
	word := make([]byte, 2)
	if _, err := io.ReadFull(pipe, word); err != nil {
		return fmt.Errorf("waiting for the starter: %w", err)
	}
	return nil
}

// accepts says whether somebody listens on the unix socket.
func accepts(path string) bool {
	connection, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return false
	}
	connection.Close()
	return true
}
