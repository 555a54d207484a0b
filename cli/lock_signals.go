package cli

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// endings are the signals by which people and machines end a command.
var endings = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

func ends(s os.Signal) bool { return slices.Contains(endings, s) }

// takeSignals takes the signals over from Main, for a command that passes them
// on. They stay taken: such a command is the last thing that a process does.
//
// What whoever started us wants ignored (nohup, a job in the background of a
// script) stays so, for the command too. SIGPIPE is taken so that a standard
// error that nobody reads any more does not end us before the lock is free.
func (p *program) takeSignals() <-chan os.Signal {
	taken := make(chan os.Signal, 16)
	signal.Notify(taken, endings...)
	signal.Notify(taken, syscall.SIGPIPE)
	if p.letGo != nil {
		p.letGo()
	}
	for _, s := range p.ignored {
		signal.Ignore(s)
	}
	return taken
}

// byKeyboard reports whether a signal came from the keyboard of our terminal. Then
// the command has it already: the terminal tells all of its foreground group.
// The signal does not say where it came from, so whatever else sends one of the
// two to a process in the foreground is taken for the keyboard.
func byKeyboard(s os.Signal) bool {
	return (s == os.Interrupt || s == syscall.SIGQUIT) && inForeground()
}
