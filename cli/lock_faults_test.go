//go:build linux

package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	urfave "github.com/urfave/cli/v2"

	"salectl/internal/services"
	"salectl/internal/wait"
)

// nodesWorld is a sale of engine redis in a folder, and the servers that its file names.
type nodesWorld struct {
	*testing.T
	file  string
	nodes []*services.Redis
}

// startNodes starts a server for each list of arguments, and writes the file.
func startNodes(t *testing.T, args ...[]string) *nodesWorld {
	t.Helper()
	w := &nodesWorld{T: t, file: filepath.Join(t.TempDir(), "sale.yaml")}
	var names []string
	for _, args := range args {
		node, err := services.StartRedis(t.Context(), services.RedisOptions{Dir: t.TempDir(), Args: args})
		services.Require(t, err)
		t.Cleanup(node.Stop)
		w.nodes, names = append(w.nodes, node), append(names, node.Addr())
	}
	w.declare(names...)
	return w
}

// declare writes the file of the sale on these nodes.
func (w *nodesWorld) declare(nodes ...string) {
	w.Helper()
	for i, n := range nodes {
		nodes[i] = strconv.Quote(n)
	}
	text := fmt.Sprintf("apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: tickets}\nspec:\n"+
		"  engine: redis\n  stock: 30\n  lockCount: 3\n  redis: {nodes: [%s]}\n  embedded: {dir: store}\n", strings.Join(nodes, ", "))
	if err := os.WriteFile(w.file, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
}

// run runs a command on the file, and returns its exit code and all that it says.
func (w *nodesWorld) run(command string) (int, string) {
	w.Helper()
	c := newCapture()
	args := strings.Fields(command)
	at := len(args)
	if i := slices.Index(args, "--"); i > 0 {
		at = i - 1 // before what is to be run
	}
	args = slices.Insert(args, at, "-f", w.file)
	code := c.run(append([]string{"salectl"}, args...), nil)
	return code, c.out.String() + c.err.String()
}

// must runs a command that has to succeed.
func (w *nodesWorld) must(command string) string {
	w.Helper()
	code, says := w.run(command)
	if code != 0 {
		w.Fatalf("%s: exit code %d\n%s", command, code, says)
	}
	return says
}

// Each command that asks lock nodes says of one that may drop leases what it is, with the same
// words. What begins something that relies on it is refused; what ends it, or only looks, is not.
func TestEveryCommandJudgesLockNodes(t *testing.T) {
	const asksNone = "asks no lock node"
	does := map[string]string{
		"plan": "plan", "apply": "apply --yes", "rehearse": "rehearse", "serve": "serve --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0",
		"pause": "pause", "resume": "resume", "close": "close --yes", "destroy": "destroy --yes", "status": "status",
		"lock list": "lock list", "lock break": "lock break a --yes", "lock run": "lock run --wait 0 a -- true",
		"processes":  "",                    // shows what status does, without the lock nodes
		"draw close": "", "draw reveal": "", // have a ledger beside their nodes, which TestWarningsOfNodes does without
		"init": asksNone, "validate": asksNone, "claim": asksNone, "drain": asksNone, "claims get": asksNone, "claims list": asksNone,
		"claims confirm": asksNone, "claims extend": asksNone, "claims cancel": asksNone, "claims refund": asksNone, "claims return": asksNone,
		"draw verify": asksNone, "draw list": asksNone, "list": asksNone, "show": asksNone, "history": asksNone,
		"explain": asksNone, "audit": asksNone, "export": asksNone, "schema": asksNone, "completion": asksNone, "version": asksNone, "help": asksNone,
	}
	var all func(within string, commands []*urfave.Command)
	all = func(within string, commands []*urfave.Command) {
		for _, c := range commands {
			if len(c.Subcommands) > 0 {
				all(c.Name+" ", c.Subcommands)
			} else if _, known := does[within+c.Name]; !known {
				t.Errorf("what %s%s does with lock nodes is not tested", within, c.Name)
			}
		}
	}
	all("", newCapture().newApp().Commands)

	w := startNodes(t, nil, nil, nil)
	policy := func(to string) {
		t.Helper()
		client := goredis.NewClient(&goredis.Options{Addr: w.nodes[1].Addr()})
		defer client.Close()
		if err := client.ConfigSet(t.Context(), "maxmemory-policy", to).Err(); err != nil {
			t.Fatal(err)
		}
	}
	why := "Its maxmemory-policy is allkeys-lru, which may evict leases before they expire: set noeviction, by CONFIG SET and in redis.conf."
	node := w.nodes[1].Addr()
	refuses := "lock nodes are not set up as they must be.\n  " + node + ": " + why
	warns := "lock node " + node + " is misconfigured: " + why
	says := func(name string, code int, words string) {
		t.Helper()
		got, said := w.run(does[name])
		if got != code || !strings.Contains(said, words) {
			t.Errorf("%s: exit code %d, want %d; it says\n%s\nwant %q in it", name, got, code, said, words)
		}
	}
	policy("allkeys-lru")
	for _, name := range []string{"plan", "apply", "rehearse"} {
		says(name, exitRefused, refuses)
	}
	policy("noeviction")
	w.must("apply --yes")
	policy("allkeys-lru")
	says("plan", exitRefused, refuses)
	says("apply", exitRefused, refuses)
	server, log := exec.Command("salectl", append(strings.Fields(does["serve"]), "-f", w.file)...), new(stream)
	server.Stderr = log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	wait.Until(t, "serve to warn of the node, and to serve", func() bool {
		const line = `msg="a lock node is misconfigured" sale=tickets node=`
		return strings.Contains(log.String(), line+node+" why="+strconv.Quote(why)) && strings.Contains(log.String(), "msg=listening")
	})
	if err := errors.Join(server.Process.Signal(syscall.SIGTERM), server.Wait()); err != nil {
		t.Errorf("serve ends with %v\n%s", err, log)
	}
	says("status", 0, "up, but misconfigured: "+why)
	says("lock list", 0, warns)
	says("lock break", exitError, warns)
	says("lock run", exitStale, strings.TrimSuffix(warns, "."))
	for _, name := range []string{"pause", "resume", "close", "destroy"} {
		says(name, 0, warns)
	}
}

// A node that answers, and cannot be used, is said to be nothing else.
func TestOneReasonForEachNode(t *testing.T) {
	const cluster = "It belongs to a Redis Cluster, where one script cannot write all leases: name a standalone server instead."
	const login = "it refuses the username or password; check the variables that spec.redis.usernameEnv and spec.redis.passwordEnv name"
	inCluster := []string{"--cluster-enabled", "yes"}
	w := startNodes(t, inCluster, inCluster, inCluster)
	node := func(i int) string { return w.nodes[i].Addr() }
	want := fmt.Sprintf("Error: tickets: lock nodes are not set up as they must be.\n  %[2]s: %[1]s\n  %[3]s: %[1]s\n  %[4]s: %[1]s\n", cluster, node(0), node(1), node(2))
	for _, command := range []string{"plan", "apply --yes", "plan --json"} {
		if code, says := w.run(command); code != exitRefused || !strings.Contains(command, "json") && says != want || strings.Contains(says, "cannot be") {
			t.Errorf("%s: exit code %d, it says\n%s\nwant\n%s", command, code, says, want)
		}
	}
	// A lock run ends once the nodes that deny it are too many, before a slower one answers.
	for command, least := range map[string]int{"lock list": 3, "lock run a -- true": 2} {
		code, says := w.run(command)
		named := 0
		for i := range w.nodes {
			named += strings.Count(says, "lock node "+node(i)+" is misconfigured: "+strings.TrimSuffix(cluster, "."))
		}
		if code != exitError || named < least || strings.Contains(says, "name standalone servers") {
			t.Errorf("%s: exit code %d, want %d; %d nodes are named, want at least %d:\n%s", command, code, exitError, named, least, says)
		}
	}

	w = startNodes(t, nil, nil, []string{"--requirepass", "secret"})
	says := w.must("plan")
	for _, want := range []string{"lock node " + node(2) + " cannot be used: " + login, "node/" + node(2) + "  marker good  # it cannot be used now"} {
		if !strings.Contains(says, want) {
			t.Errorf("plan says\n%s\nwant %q in it", says, want)
		}
	}
	for _, wrong := range []string{"reached", "answer", " away"} {
		if strings.Contains(says, wrong) {
			t.Errorf("plan says %q of a node that answers\n%s", wrong, says)
		}
	}
}
