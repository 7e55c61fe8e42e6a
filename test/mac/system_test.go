package mac

import "runtime"

const isMac = runtime.GOOS == "darwin"
