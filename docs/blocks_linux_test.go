package docs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"salectl/internal/services"
)

// notRun are the shell blocks that TestBlocks leaves out, and why.
var notRun = map[string]string{
	"make test\n": "runs this test",
}

// roundVariable names the script that TestMain runs instead of the tests.
const roundVariable = "SALECTL_DOCS_ROUND"

// TestMain is also the first process of a round, which is alone in a network namespace
// of its own: it turns loopback on and becomes the reader's shell.
func TestMain(m *testing.M) {
	script := os.Getenv(roundVariable)
	if script == "" {
		os.Exit(m.Run())
	}
	os.Unsetenv(roundVariable)
	bash, err := exec.LookPath("bash")
	if err == nil {
		err = loopbackUp()
	}
	if err == nil {
		err = syscall.Exec(bash, []string{"bash", script}, os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request := struct {
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{flags: unix.IFF_UP}
	copy(request.name[:], "lo")
	if _, _, code := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); code != 0 {
		return os.NewSyscallError("turn loopback on", code)
	}
	return nil
}

// The commands of the README, of all pages and of the shop's README work as they stand, in the order in
// which a reader comes to them, pasted into one shell in a fresh clone; and so do they
// once more from the start. What stands below them as their output is what they print.
//
// Ports, where the pages name them, are those of the reader's machine. So each round
// has a network of its own.
func TestBlocks(t *testing.T) {
	t.Parallel() // it mostly waits for servers
	services.Require(t, services.Installed())
	var blocks []block
	for _, p := range append(pages(t), readPage(t, "examples/shop/README.md")) {
		blocks = append(blocks, shellBlocks(t, p)...)
	}
	clone, cache := cloneTree(t), cacheFolder(t)
	for round := 1; round <= 2; round++ {
		if !t.Run(fmt.Sprint("round ", round), func(t *testing.T) { runBlocks(t, clone, cache, blocks) }) {
			return
		}
	}
}

// shellBlocks returns the shell blocks of a page, each with the output that the page
// shows right after it.
func shellBlocks(t *testing.T, p page) (shell []block) {
	all := blocks(p)
	for i, b := range all {
		switch b.language {
		case "sh":
			if _, skip := notRun[b.text]; !skip {
				shell = append(shell, b)
			}
		case "text":
			if i == 0 || all[i-1].language != "sh" {
				t.Errorf("%s: no shell block before this output", b)
			}
			shell = append(shell, b)
		case "bash", "shell", "":
			t.Errorf("%s: a block that is to be run is a block of sh; others name their language", b)
		}
	}
	return shell
}

// cloneTree returns a folder with the files of the repository as they are now.
func cloneTree(t *testing.T) string {
	t.Helper()
	clone := filepath.Join(t.TempDir(), "salectl")
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = ".."
	files, err := list.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	for _, file := range strings.Split(strings.TrimRight(string(files), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join("..", file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(clone, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return clone
}

// cacheFolder returns a services.CacheDir with HBase's jars, and servers of its own.
func cacheFolder(t *testing.T) string {
	t.Helper()
	cache := t.TempDir()
	jars, err := filepath.Glob(filepath.Join(services.CacheDir(), "hbase-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, jar := range jars {
		if err := os.Symlink(jar, filepath.Join(cache, filepath.Base(jar))); err != nil {
			t.Fatal(err)
		}
	}
	return cache
}

// expected is how a command that is to fail says so: "# 2: there are changes".
var expected = regexp.MustCompile(`# (\d+): `)

// script is one shell that is given all blocks. After each command it checks the exit
// code. Block i prints into the file i of the folder out.
func script(blocks []block, out string) string {
	var s strings.Builder
	s.WriteString(`check() {
	local got=$?
	[ $got = "$2" ] || { echo "$1: exit code $got, want $2"; exit 1; }
}
`)
	for i, b := range blocks {
		if b.language != "sh" {
			continue
		}
		fmt.Fprintf(&s, "exec >'%s/%d' 2>&1\n", out, i)
		for j, line := range strings.SplitAfter(b.text, "\n") {
			s.WriteString(line)
			if line == "" || strings.HasSuffix(line, "\\\n") {
				continue
			}
			want := "0"
			if code := expected.FindStringSubmatch(line); code != nil {
				want = code[1]
			}
			fmt.Fprintf(&s, "check %s:%d %s\n", b.page, b.line+j, want)
		}
	}
	return s.String()
}

func runBlocks(t *testing.T, clone, cache string, blocks []block) {
	ctx, cancel := t.Context(), func() {}
	if deadline, ok := t.Deadline(); ok { // a command that does not end is named before that
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-time.Minute))
	}
	defer cancel()
	out := t.TempDir()
	path := filepath.Join(out, "script")
	if err := os.WriteFile(path, []byte(script(blocks, out)), 0o600); err != nil {
		t.Fatal(err)
	}
	shell := exec.CommandContext(ctx, os.Args[0])
	shell.Dir = clone
	shell.Env = append(os.Environ(), roundVariable+"="+path, "SALECTL_CACHE="+cache, "PWD="+clone)
	shell.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		shell.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		shell.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		shell.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	var said bytes.Buffer
	shell.Stdout, shell.Stderr = &said, &said
	if err := shell.Start(); err != nil {
		services.Require(t, fmt.Errorf("a network namespace for the blocks: %w (%w)", services.ErrMissing, err))
	}
	network, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", shell.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	err = shell.Wait()
	if left := killAll(network); left > 0 && err == nil {
		t.Errorf("%d processes are left when all blocks have run", left)
	}
	if err != nil {
		t.Errorf("%v\n%s%s", err, &said, lastOutput(t, out, blocks))
		return
	}
	for i, b := range blocks {
		if b.language == "text" {
			wantOutput(t, b, readOutput(t, out, i-1))
		}
	}
}

// killAll ends all processes of a network namespace, and returns how many there were.
func killAll(network string) (killed int) {
	links, _ := filepath.Glob("/proc/[0-9]*/ns/net")
	for _, link := range links {
		var pid int
		if of, err := os.Readlink(link); err != nil || of != network {
			continue
		}
		if _, err := fmt.Sscanf(link, "/proc/%d/", &pid); err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}

func readOutput(t *testing.T, out string, i int) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, fmt.Sprint(i)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// lastOutput is what the last block printed that was begun.
func lastOutput(t *testing.T, out string, blocks []block) (text string) {
	for i := range blocks {
		if said := readOutput(t, out, i); said != "" {
			text = said
		}
	}
	return text
}

// wantOutput holds what was printed against what a page shows: each line in its order,
// whatever stands between them, and whatever numbers and names of this machine.
func wantOutput(t *testing.T, want block, got string) {
	t.Helper()
	printed := strings.FieldsFunc(got, func(r rune) bool { return r == '\n' || r == '\r' })
	at := 0
	for i, line := range strings.Split(strings.TrimSpace(want.text), "\n") {
		if strings.TrimSpace(line) == "…" || line == "" {
			continue
		}
		parts := strings.Split(plain(line), "…")
		for j := range parts {
			parts[j] = regexp.QuoteMeta(parts[j])
		}
		form := regexp.MustCompile(strings.Join(parts, ".*"))
		for at < len(printed) && !form.MatchString(plain(printed[at])) {
			at++
		}
		if at == len(printed) {
			t.Errorf("%s:%d: nothing like this line was printed, or not after the lines above it; it was\n%s", want.page, want.line+i, got)
			return
		}
		at++
	}
}

var (
	someone = regexp.MustCompile(`\S+@\S+`)
	ids     = regexp.MustCompile(`\b[0-9a-f]{16}\b`)
	numbers = regexp.MustCompile(`[0-9][0-9,.:TZ-]*`)
	blanks  = regexp.MustCompile(`\s+`)
)

// plain is a line without what differs from run to run.
func plain(line string) string {
	line = ids.ReplaceAllString(someone.ReplaceAllString(line, "USER"), "#")
	line = numbers.ReplaceAllString(line, "#")
	return blanks.ReplaceAllString(strings.TrimSpace(line), " ")
}
