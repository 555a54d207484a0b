package kubernetes

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// cluster runs Pods as a node does, on this machine: each in a network and a tree of mounts of its
// own, from the files of the image, with the user, groups, files and environment of its manifest.
type cluster struct {
	root     string // the files of the image, unpacked
	program  []string
	manifest *manifests
	secrets  map[string]map[string]string // data of Secrets
	shared   string                       // a folder that all may write to, at /ledger: what Redis and HBase are else
	exports  string                       // the volume of the exports
	names    map[string]string            // the addresses of Pods that have a name in DNS
	pods     int
}

// start makes the network of the cluster: this process is on it, as its node.
func (c *cluster) start(t *testing.T) {
	t.Helper()
	c.sh(t, `mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns && ip link set lo up &&
		ip link add br0 type bridge && ip addr add 10.9.0.1/24 dev br0 && ip link set br0 up`)
	for _, dir := range []string{"proc", "ledger"} {
		if err := os.MkdirAll(filepath.Join(c.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The names that the cluster's DNS has for the Pods of the StatefulSet, and of the Service.
	hosts := "127.0.0.1 localhost\n"
	c.names = make(map[string]string)
	for i := range *c.manifest.server.Spec.Replicas {
		pod, ip := fmt.Sprintf("%s-%d", c.manifest.server.Name, i), fmt.Sprintf("10.9.0.%d", 10+i)
		hosts += fmt.Sprintf("%s %s.%s.shop.svc\n", ip, pod, c.manifest.server.Spec.ServiceName)
		c.names[pod] = ip
	}
	if err := os.WriteFile(filepath.Join(c.root, "etc/hosts"), []byte(hosts), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) sh(t *testing.T, script string) {
	t.Helper()
	if out, err := exec.Command("sh", "-euc", script).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// pod is a Pod that runs.
type pod struct {
	ip    string
	cmd   *exec.Cmd
	out   *output
	ended chan struct{} // is closed then
}

// output is what a Pod has written so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// enter is how a Pod's process begins: its volumes are mounted, then the rest of its tree can be
// read only, and it takes its user and groups, which have no capabilities.
const enter = `
root=$1 dir=$2 user=$3 groups=$4; shift 4
mount --bind "$root" "$root"
while [ "$1" != -- ]; do
	mount --bind "$1" "$root$2"; mount -o "remount,bind,$3" "$root$2"; shift 3
done; shift
mount -t proc proc "$root/proc"
mount -o remount,bind,ro "$root"
if [ -n "$dir" ]; then # chroot begins at the root, and unshare gives the user no group but its own
	exec setpriv --no-new-privs unshare --setgid "${user#*:}" --setuid "${user%:*}" --root "$root" --wd "$dir" "$@"
fi
exec setpriv --no-new-privs chroot --userspec="$user" --groups="$groups" "$root" "$@"
`

// run starts the container of a Pod.
func (c *cluster) run(t *testing.T, name string, spec corev1.PodSpec) *pod {
	t.Helper()
	address, ok := c.names[name]
	if !ok {
		address = fmt.Sprintf("10.9.0.%d", 100+c.pods)
	}
	p := &pod{ip: address, out: new(output), ended: make(chan struct{})}
	ns := "pod" + strconv.Itoa(c.pods)
	c.sh(t, fmt.Sprintf(`ip netns add %[1]s; ip link add %[1]s type veth peer name eth0 netns %[1]s; ip link set %[1]s master br0 up
		ip -n %[1]s addr add %[2]s/24 dev eth0; ip -n %[1]s link set eth0 up; ip -n %[1]s link set lo up`, ns, p.ip))
	c.pods++

	container, user := spec.Containers[0], *spec.SecurityContext.RunAsUser
	groups := strconv.FormatInt(*spec.SecurityContext.RunAsGroup, 10)
	args := []string{"netns", "exec", ns, "sh", "-euc", enter, "enter", c.root, container.WorkingDir, fmt.Sprintf("%d:%s", user, groups)}
	if g := spec.SecurityContext.FSGroup; g != nil {
		groups += "," + strconv.FormatInt(*g, 10)
	}
	args = append(args, groups, c.shared, "/ledger", "rw")
	for _, m := range container.VolumeMounts {
		i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if i < 0 {
			t.Fatalf("%s: there is no volume %s", name, m.Name)
		}
		if err := os.MkdirAll(filepath.Join(c.root, m.MountPath), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := "rw"
		if m.ReadOnly {
			mode = "ro"
		}
		args = append(args, c.mount(t, spec.Volumes[i], spec.SecurityContext.FSGroup), m.MountPath, mode)
	}

	known := make(map[string]string)
	for _, from := range container.EnvFrom {
		maps.Copy(known, c.secrets[from.SecretRef.Name])
	}
	for _, e := range container.Env {
		known[e.Name] = e.Value
		switch from := e.ValueFrom; {
		case from == nil:
		case from.SecretKeyRef != nil:
			value, ok := c.secrets[from.SecretKeyRef.Name][from.SecretKeyRef.Key]
			if !ok {
				t.Fatalf("%s: there is no key %s in Secret %s", name, from.SecretKeyRef.Key, from.SecretKeyRef.Name)
			}
			known[e.Name] = value
		default:
			known[e.Name] = map[string]string{"metadata.name": name, "metadata.namespace": "shop"}[from.FieldRef.FieldPath]
		}
	}
	args = append(append(args, "--"), c.program...)
	for _, arg := range container.Args {
		args = append(args, regexp.MustCompile(`\$\((\w+)\)`).ReplaceAllStringFunc(arg, func(of string) string { return known[of[2:len(of)-1]] }))
	}
	p.cmd = exec.Command("ip", args...)
	// The program of this test is linked with libc, whose resolver wants files that the image does
	// not have; that of `make image` has Go's alone.
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GODEBUG=netdns=go"}
	for _, key := range slices.Sorted(maps.Keys(known)) {
		p.cmd.Env = append(p.cmd.Env, key+"="+known[key])
	}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.cmd.Wait() // its code tells
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill() // it has mostly ended, which is no matter
		<-p.ended
		if t.Failed() {
			t.Logf("%s:\n%s", name, p.out)
		}
	})
	return p
}

// end sends SIGTERM, waits for the end, and returns the exit code.
func (p *pod) end(t *testing.T) int {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	return p.wait()
}

func (p *pod) wait() int {
	<-p.ended
	return p.cmd.ProcessState.ExitCode()
}

// mount makes the folder of a volume as a kubelet does: the files are in a hidden folder, to which
// ..data is a link, and each has a link through that. They belong to root, and with a group of the
// file system that group may read them too.
func (c *cluster) mount(t *testing.T, v corev1.Volume, group *int64) string {
	t.Helper()
	if v.PersistentVolumeClaim != nil { // its folder belongs to the group, which may write to it
		if err := os.Chown(c.exports, 0, int(*group)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(c.exports, 0o770|os.ModeSetgid); err != nil {
			t.Fatal(err)
		}
		return c.exports
	}
	var data map[string]string
	mode := int32(0o644)
	var declared *int32
	switch {
	case v.ConfigMap != nil:
		data, declared = c.manifest.configs[v.ConfigMap.Name].Data, v.ConfigMap.DefaultMode
	case v.Secret != nil:
		data, declared = c.secrets[v.Secret.SecretName], v.Secret.DefaultMode
	}
	if declared != nil {
		mode = *declared
	}
	if len(data) == 0 {
		t.Fatalf("volume %s has nothing", v.Name)
	}
	dir := t.TempDir()
	const hidden = "..2026_11_21_07_29_33.1234567890"
	if err := os.Mkdir(filepath.Join(dir, hidden), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(hidden, filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	for name, content := range data {
		path := filepath.Join(dir, hidden, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		owner, mode := 0, os.FileMode(mode)
		if group != nil {
			owner, mode = int(*group), mode|0o440
		}
		if err := os.Chown(path, 0, owner); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // without the umask
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// keepHere keeps the one sale of a ConfigMap in the folder that all Pods share.
func (c *cluster) keepHere(t *testing.T, config string) {
	t.Helper()
	data := c.manifest.configs[config].Data
	for name, text := range data {
		var document map[string]any
		if err := yaml.Unmarshal([]byte(text), &document); err != nil {
			t.Fatal(err)
		}
		spec := document["spec"].(map[string]any)
		for _, key := range []string{"redis", "hbase"} {
			if spec[key] == nil {
				t.Fatalf("the sale has no %s", key)
			}
			delete(spec, key)
		}
		spec["embedded"] = map[string]any{"dir": "/ledger"}
		spec["units"] = map[string]any{"file": "/etc/salectl/private/codes.csv", "keyFile": "/etc/salectl/private/units.key"}
		changed, err := yaml.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		data[name] = string(changed)
	}
}

// said is what a Pod has written so far.
func (p *pod) said() string { return strings.TrimSpace(p.out.String()) }
