package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// tree is a copy of the repository as it stands, committed or not, in a folder
// of its own: a mutant that is left half done harms nobody's work.
type tree struct {
	root string // of the copy
	temp string // what else is needed is beside it
}

// repository returns the root of the repository that the command runs in.
func repository(ctx context.Context) (string, error) {
	out, err := output(exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel"))
	if err != nil {
		return "", fmt.Errorf("the planted bugs are applied to a git repository, run it within one: %w", err)
	}
	return strings.TrimSpace(out), nil
}

// copyTree copies what git knows of, and what is new and not ignored.
func copyTree(ctx context.Context, root string) (*tree, error) {
	list := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	names, err := output(list)
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return nil, err
	}
	t := &tree{root: filepath.Join(temp, "tree"), temp: temp}
	for name := range strings.SplitSeq(strings.TrimRight(names, "\x00"), "\x00") {
		err := copyFile(filepath.Join(root, name), filepath.Join(t.root, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // deleted and not committed
			t.remove()
			return nil, err
		}
	}
	return t, nil
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

func (t *tree) remove() { os.RemoveAll(t.temp) }

// with does something while a mutant is applied.
func (t *tree) with(ctx context.Context, m mutant, do func() error) error {
	if err := t.apply(ctx, m); err != nil {
		return fmt.Errorf("it does not apply: %w", err)
	}
	err := do()
	// Also when ctx has ended: the next mutant would find what this one left.
	if back := t.apply(context.WithoutCancel(ctx), m, "--reverse"); back != nil {
		return errors.Join(err, fmt.Errorf("it cannot be taken back: %w", back))
	}
	return err
}

func (t *tree) apply(ctx context.Context, m mutant, flags ...string) error {
	args := append([]string{"apply", "-p1", "--whitespace=nowarn"}, flags...)
	cmd := exec.CommandContext(ctx, "git", append(args, m.file)...)
	cmd.Dir = t.root
	// Within a repository git would apply nothing, and report nothing.
	cmd.Env = append(outsideGit(), "GIT_CEILING_DIRECTORIES="+t.temp)
	_, err := output(cmd)
	return err
}

// outsideGit is the environment without what a git hook puts there.
func outsideGit() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
}

// compile builds packages. With -trimpath the results do not depend on where the
// copy lies, so that they are in the build cache the next time.
func (t *tree) compile(ctx context.Context, packages ...string) error {
	_, err := t.goTool(ctx, append([]string{"build", "-trimpath", "-ldflags=-w"}, packages...)...)
	return err
}

func (t *tree) goTool(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = t.root
	return output(cmd)
}

// output runs a command and returns what it wrote, also when it fails; the error
// has what it complained of.
func output(cmd *exec.Cmd) (string, error) {
	var out, complaint strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args[:2], " "), err, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}
