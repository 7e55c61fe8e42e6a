package backend

// Backends are the backends of this build.
var Backends = []string{"seatbelt"}

func automatic(daemon string, _ AskState) (Backend, error) {
	if daemon == "require" {
		return Backend{}, errNoDaemon
	}
	return Seatbelt(ThisMac())
}

func named(name, daemon string, ask AskState) (b Backend, ok bool, err error) {
	if name != "seatbelt" {
		return Backend{}, false, nil
	}
	b, err = automatic(daemon, ask)
	return b, true, err
}

func doctor() Machine { return doctorMac(ThisMac(), probesOfThisMac()) }
