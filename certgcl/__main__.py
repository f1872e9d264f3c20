from certgcl.cli import main

main()
