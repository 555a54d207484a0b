package kubernetes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// rootVariable names the folder of the unpacked image for the process that is alone in a network.
const rootVariable = "SALECTL_KUBERNETES_ROOT"

// patience is how long something may take that a test waits for.
const patience = 2 * time.Minute

// The servers of the manifests run from the image as a node runs them: without rights, with a tree
// that they cannot write to, and with Secrets as volumes have them. The probes reach them, they
// find each other by their names, and SIGTERM ends one within its time while the other sells on.
// The Jobs apply the sale, find drift, export and destroy. Prometheus and operators reach the admin
// address with certificates of their own. The sale has secret units, whose key and file all Pods
// mount. Redis and HBase are the one thing that is not there: the
// sale is kept in a folder that all Pods have.
func TestServe(t *testing.T) {
	root := os.Getenv(rootVariable)
	if root == "" {
		alone(t)
		return
	}
	c := &cluster{root: root, program: []string{"/salectl"}, manifest: build(t), shared: t.TempDir(), exports: t.TempDir()}
	for _, path := range []string{c.shared, c.exports} { // the way there is not for root alone
		for ; len(path) > len(os.TempDir()); path = filepath.Dir(path) {
			if err := os.Chmod(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Chown(c.shared, 65532, 65532); err != nil {
		t.Fatal(err)
	}
	authority := newAuthority(t)
	cert, key := authority.issue(t, certificates(t)["salectl-tls"])
	codes := "code\n"
	for i := range 100 {
		codes += fmt.Sprintf("code-%d\n", i)
	}
	c.secrets = map[string]map[string]string{
		"salectl-tokens":     {"tokens": "token-of-the-shop claim\ntoken-of-the-operators operate\n"},
		"salectl-tls":        {"tls.crt": cert, "tls.key": key, "ca.crt": authority.pem},
		"salectl-redis":      {"username": "salectl", "password": "secret"},
		"salectl-redis-read": {"username": "looks", "password": "secret"},
		"salectl-private":    {"codes.csv": codes, "units.key": base64.StdEncoding.EncodeToString(make([]byte, 32))},
		"salectl-env":        {"UNUSED": "value"},
	}
	for _, name := range []string{"sales", "sales-to-apply"} {
		c.keepHere(t, name)
	}
	c.start(t)

	job := c.run(t, "salectl-apply", c.manifest.apply.Spec.Template.Spec)
	if code := job.wait(); code != 0 || !strings.Contains(job.said(), "Applied generation 1 of movie-tickets") {
		t.Fatalf("apply ends with %d\n%s", code, job.said())
	}

	server := c.manifest.server.Spec.Template.Spec
	var servers []*pod
	for i := range *c.manifest.server.Spec.Replicas {
		servers = append(servers, c.run(t, fmt.Sprintf("salectl-%d", i), server))
	}
	for _, p := range servers {
		container := server.Containers[0]
		for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
			eventually(t, p, func() error { return probed(container, probe, p.ip) })
		}
	}
	first, second := servers[0], servers[1]

	// Who has no certificate gets no further than the probes, at either address.
	stranger := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for _, path := range []string{":9443/metrics", ":9443/v1/sales", ":8443/v1/sales/movie-tickets"} {
		response, err := stranger.Get("https://" + first.ip + path)
		if err != nil {
			t.Fatal(err)
		}
		if response.Body.Close(); response.StatusCode != http.StatusForbidden {
			t.Errorf("%s without a certificate: %s", path, response.Status)
		}
	}

	shop := client(t, authority, certificates(t)["salectl-operator"], "salectl-claims.shop.svc")
	for i, p := range servers {
		if err := claim(shop, p.ip, fmt.Sprint("user-", i)); err != nil {
			t.Fatal(err)
		}
	}
	// Each owns a part, so that they have found each other by the names.
	eventually(t, second, func() error { return owned(shop, second.ip, len(servers)) })

	// Prometheus has a certificate of its own, and expects the name that the PodMonitor has.
	_, of := monitor(t)
	prometheus := client(t, authority, certificates(t)["salectl-monitoring"], of.TLSConfig.ServerName)
	for _, p := range servers {
		response, err := prometheus.Get("https://" + p.ip + ":9443" + of.Path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		if response.Body.Close(); err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(text), "salectl_ready") {
			t.Errorf("metrics of %s: %s %v", p.ip, response.Status, err)
		}
	}
	operate(t, authority, second, pageCommand(t, "salectl drain "), "owns no shard")
	operate(t, authority, second, pageCommand(t, "salectl drain ")+" --undo", "")
	eventually(t, second, func() error { return owned(shop, second.ip, len(servers)) })
	export := c.manifest.manual["export"].Spec.Template.Spec
	if p := c.run(t, "salectl-export-1", export); p.wait() != 0 {
		t.Errorf("export ends with %d: %s", p.wait(), p.said())
	}
	c.exported(t, "salectl-export-1.ndjson")

	// A Pod is ended: SIGTERM comes when preStop is over, and the other sells on.
	began := time.Now()
	if code := first.end(t); code != 0 {
		t.Errorf("the server ends with %d", code)
	}
	left := time.Duration(*server.TerminationGracePeriodSeconds-server.Containers[0].Lifecycle.PreStop.Sleep.Seconds) * time.Second
	if took := time.Since(began); took > left {
		t.Errorf("it has taken %s, and would have been killed after %s", took, left)
	}
	if err := claim(shop, second.ip, "user-after"); err != nil {
		t.Error(err)
	}

	// The sale is as git declares it, until somebody changes it by hand.
	drift := c.manifest.drift.Spec.JobTemplate.Spec.Template.Spec
	if p := c.run(t, "salectl-drift-1", drift); p.wait() != 0 {
		t.Errorf("drift, where there is none: %s", p.said())
	}
	by := c.manifest.apply.Spec.Template.Spec
	by.Containers = []corev1.Container{*by.Containers[0].DeepCopy()}
	by.Containers[0].Args = []string{"pause", "-f=/etc/salectl/sales"}
	if p := c.run(t, "by-hand", by); p.wait() != 0 {
		t.Fatal(p.said())
	}
	if p := c.run(t, "salectl-drift-2", drift); p.wait() != 2 || !strings.Contains(p.said(), "phase paused -> open") {
		t.Errorf("exit code %d; want 2, for drift: %s", p.cmd.ProcessState.ExitCode(), p.said())
	}

	destroy := c.manifest.manual["destroy"].Spec.Template.Spec
	if p := c.run(t, "salectl-destroy-1", destroy); p.wait() != 0 {
		t.Errorf("destroy ends with %d: %s", p.wait(), p.said())
	}
	c.exported(t, "movie-tickets-*.ndjson")

	// Secrets as they are mounted without defaultMode.
	server = *server.DeepCopy()
	for i := range server.Volumes {
		if server.Volumes[i].Secret != nil {
			server.Volumes[i].Secret.DefaultMode = nil
		}
	}
	if p := c.run(t, "salectl-2", server); p.wait() == 0 || !strings.Contains(p.said(), "defaultMode: 0400") {
		t.Errorf("Secrets that all can read: %s", p.said())
	}
}

// alone runs this test again, in a network and a tree of mounts of its own.
func alone(t *testing.T) {
	missing := error(nil)
	for _, tool := range []string{"ip", "mount", "chroot", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing = errors.Join(missing, err)
		}
	}
	if os.Getuid() != 0 {
		missing = errors.Join(missing, errors.New("only root may make networks and mounts"))
	}
	if missing != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	program, err := salectl()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(binaries, "layout")
	makeImage(t, out, program)
	of, _ := image(t, out)
	root, err := os.MkdirTemp(binaries, "root") // one for each run of the test
	if err := errors.Join(err, os.Chmod(binaries, 0o755), os.Chmod(root, 0o755)); err != nil {
		t.Fatal(err)
	}
	unpack(t, of, root)
	again := exec.Command("/proc/self/exe", "-test.run=^TestServe$", "-test.v")
	again.Env = append(os.Environ(), rootVariable+"="+root)
	again.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	said, err := again.CombinedOutput()
	if t.Logf("%s", said); err != nil {
		t.Error(err)
	}
}

// probed asks what a probe asks, as a kubelet does: over HTTPS it shows no certificate and
// believes any.
func probed(container corev1.Container, probe *corev1.Probe, ip string) error {
	get := probe.HTTPGet
	for _, p := range container.Ports {
		if p.Name != get.Port.StrVal {
			continue
		}
		kubelet := &http.Client{
			Timeout:   time.Duration(probe.TimeoutSeconds) * time.Second,
			Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		}
		request, err := http.NewRequest(http.MethodGet, fmt.Sprintf("%s://%s:%d%s", strings.ToLower(string(get.Scheme)), ip, p.ContainerPort, get.Path), nil)
		if err != nil {
			return err
		}
		request.Header.Set("User-Agent", "kube-probe/1.33")
		response, err := kubelet.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if response.StatusCode < 200 || response.StatusCode >= 400 {
			return fmt.Errorf("%s: %s %s", get.Path, response.Status, body)
		}
		return err
	}
	return fmt.Errorf("there is no port %s", get.Port.StrVal)
}

// exported fails unless the volume has one such file, and its digest.
func (c *cluster) exported(t *testing.T, pattern string) {
	t.Helper()
	for _, ending := range []string{"", ".sha256"} {
		if files, err := filepath.Glob(filepath.Join(c.exports, pattern+ending)); err != nil || len(files) != 1 {
			t.Errorf("the volume has the exports %q: %v; want one of %s", files, err, pattern+ending)
		}
	}
}

// pageCommand returns the one command of docs/kubernetes.md that begins so.
func pageCommand(t *testing.T, begin string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, begin) {
			return strings.TrimSpace(line)
		}
	}
	t.Fatalf("docs/kubernetes.md has no command %s", begin)
	return ""
}

// operate runs a command of docs/kubernetes.md in a folder with the files of an operator, while the
// admin port of a Pod is forwarded to this machine, as by kubectl port-forward.
func operate(t *testing.T, authority *authority, p *pod, command, want string) {
	t.Helper()
	listener, err := net.Listen("tcp", "localhost:9443") // the network is this test's own
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", p.ip+":9443")
			if err != nil {
				near.Close()
				continue
			}
			for _, ends := range [][2]net.Conn{{near, far}, {far, near}} {
				go func() {
					io.Copy(ends[0], ends[1]) // it ends with either connection
					ends[0].Close()
				}()
			}
		}
	}()
	cert, key := authority.issue(t, certificates(t)["salectl-operator"])
	dir := t.TempDir()
	for name, content := range map[string]string{"tls.crt": cert, "tls.key": key, "ca.crt": authority.pem, "operate": "token-of-the-operators operate\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	words := strings.Fields(command)
	c := exec.Command(filepath.Join(os.Getenv(rootVariable), words[0]), words[1:]...)
	c.Dir = dir
	if said, err := c.CombinedOutput(); err != nil || !strings.Contains(string(said), want) {
		t.Errorf("%s: %v, without %q:\n%s", command, err, want, said)
	}
}

// client is an HTTP client with the certificate that is declared, which expects the name of a
// server's certificate.
func client(t *testing.T, of *authority, declared certificate, server string) *http.Client {
	t.Helper()
	cert, key := of.issue(t, declared)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(of.pem))
	return &http.Client{Timeout: patience, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, ServerName: server},
	}}
}

// claim claims a unit, until it is sold.
func claim(shop *http.Client, ip, user string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+ip+":8443/v1/sales/movie-tickets/claims", strings.NewReader(`{"user": "`+user+`"}`))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Idempotency-Key", "key-of-"+user)
		request.Header.Set("Authorization", "Bearer token-of-the-shop")
		response, err := shop.Do(request)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		switch response.StatusCode {
		case http.StatusOK, http.StatusCreated:
			return err
		case http.StatusServiceUnavailable: // as clients do
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("%s is told: %s", user, body)
			}
		default:
			return fmt.Errorf("%s is told: %s %s", user, response.Status, body)
		}
	}
}

// owned reports whether each server is known to the one at ip by the name that the manifest gives it,
// and owns its part.
func owned(shop *http.Client, ip string, servers int) error {
	response, err := shop.Get("https://" + ip + ":9443/v1/sales/movie-tickets")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var sale struct {
		Processes []struct {
			Address          string
			Shards, Assigned int
		}
	}
	if err := json.Unmarshal(body, &sale); err != nil {
		return err
	}
	owning := make(map[string]bool)
	for _, p := range sale.Processes {
		owning[p.Address] = p.Shards > 0 && p.Shards == p.Assigned
	}
	for i := range servers {
		if name := fmt.Sprintf("https://salectl-%d.salectl.shop.svc:8443", i); !owning[name] {
			return fmt.Errorf("%s does not own its part: %s", name, body)
		}
	}
	return nil
}

// eventually waits until try succeeds, while a Pod runs.
func eventually(t *testing.T, p *pod, try func() error) {
	t.Helper()
	for late := time.After(patience); ; {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-p.ended:
			t.Fatalf("the Pod has ended with %d: %v", p.wait(), err)
		case <-late:
			t.Fatal(err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
