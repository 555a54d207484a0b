package lock

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// endings are the signals with which people and service managers end a command.
var endings = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

func ends(s os.Signal) bool { return slices.Contains(endings, s) }

// TakeSignals redirects signals to the returned channel, for a command that passes them on.
// letGo stops their delivery to the present receiver; nil: there is none. The redirection is permanent: such a command is the last action of a process.
//
// Signals that the parent process ignores (nohup, a background job of a script) stay ignored,
// also for the command. SIGPIPE is received so that a closed standard error does not end this
// process before the lock is released.
func TakeSignals(letGo func(), ignored []os.Signal) <-chan os.Signal {
	taken := make(chan os.Signal, 16)
	signal.Notify(taken, endings...)
	signal.Notify(taken, syscall.SIGPIPE)
	if letGo != nil {
		letGo()
	}
	for _, s := range ignored {
		signal.Ignore(s)
	}
	return taken
}

// byKeyboard reports whether a signal came from the keyboard of the terminal. The command has
// received it then, since the terminal signals its whole foreground group. Signals do not
// carry their origin, so either signal from another source to a foreground process counts as
// one from the keyboard.
func byKeyboard(s os.Signal) bool {
	return (s == os.Interrupt || s == syscall.SIGQUIT) && inForeground()
}
