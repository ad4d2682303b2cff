"""The board in QEMU on which each Arm target is tested."""

BOARDS = {
    "cortex-m0": "nrf51-large",
    "cortex-m3": "mps2-an385",
    "cortex-m4": "mps2-an386",
    "cortex-m7": "mps2-an500",
    "cortex-m33": "mps2-an505",
    "cortex-m55": "mps3-an547",
}
